"""Values of declared types from text and JSON, and back."""
