"""Names of Keras that are not public, or not documented: used here alone, each with the public way that is missing.

What Keras guarantees ends at its public names, so that a new version may rename what is used here without notice.
`test/backend/test_keras_*.py` check each name and what is expected of it; `requirements.txt` bounds the version.

Further names of this kind are in `jax.py` and `tensorflow.py` (one each), `distributed.py` and
`tensorboard_private.py`.
"""
