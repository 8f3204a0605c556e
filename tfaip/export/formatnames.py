"""Names of the formats of a model directory, which are those of their directories; see `tfaip.export.formats`."""

SERVE_DIR, KERAS_DIR, ONNX_DIR = FORMAT_DIRS = ("serve", "keras", "onnx")
