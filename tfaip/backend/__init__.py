"""Everything that differs between TensorFlow and JAX, and what is needed of Keras beyond its public interface.

`tensorflow.py` and `jax.py` have the same functions; `active.py` chooses one of them, when Keras is imported.
"""
