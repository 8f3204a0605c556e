"""Reports on a running training: progress, results, TensorBoard, profiles."""
