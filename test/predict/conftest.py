"""The model that the tests load."""

from test.support.trained import tutorial as tutorial
