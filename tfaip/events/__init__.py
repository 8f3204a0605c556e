"""TensorBoard: event files without TensorFlow, and a plugin."""
