"""Names in params: of classes and functions, old ones, mistyped ones."""
