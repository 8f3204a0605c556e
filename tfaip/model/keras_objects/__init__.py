"""Objects of Keras as params: a module per kind, a class per object, a field per argument."""
