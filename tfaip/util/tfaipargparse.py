"""The argument parser of tfaip 1.2, at its old place: the stub says where it is defined, a layer above."""

from tfaip.util.oldnames import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
