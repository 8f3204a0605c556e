"""Everything that differs between TensorFlow and JAX, and what is needed of Keras beyond its public interface."""
