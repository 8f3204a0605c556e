"""Names of Keras that are not public, or not documented: used here alone, each with the public way that is missing.

What Keras guarantees ends at its public names, so that a new version may rename what is used here without notice.
`test/backend/test_keras_*.py` check what is expected of each; `requirements.txt` bounds the version.

`tools/budgets.toml` lists all names of this kind, of other libraries and in other modules too.
"""
