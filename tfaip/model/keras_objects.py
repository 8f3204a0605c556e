"""Objects of Keras as values of params: an initializer, regularizer, loss ... by its class and arguments.

The names are known to Keras alone, and its constructors know their arguments: both are checked when the object is made.
This module needs no backend.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from tfaip.errors import UsageError
from tfaip.params.names import did_you_mean, top_package
from tfaip.params.trust import import_named, is_nameable
from tfaip.params.types import NamedObject, NameOfFile
from tfaip.util.text import ERROR_LIMIT, shorten, shorten_text

# Activations of which Keras has a layer: it can be stored with its arguments, a function only by its name.
_LAYERS = {"relu": "ReLU", "leaky_relu": "LeakyReLU", "elu": "ELU", "softmax": "Softmax"}


class RefusedObject(UsageError, ValueError):
    """An object that cannot be made from its params.

    Args:
        named: its class and arguments.
        reason: the message of Keras or of the import.
    """

    def __init__(self, named: KerasObject, reason: str) -> None:
        self.named = named
        super().__init__(f"{shorten(named)} cannot be made: {shorten_text(reason, ERROR_LIMIT)}")


class KerasObject(NamedObject):
    """An object of Keras by its name there, or one of the user as `module:Class`.

    A field of the type is set by flags: `--model.kernel_regularizer L2 --model.kernel_regularizer.l2 0.01`. In Python
    this is `Regularizer("L2", l2=0.01)`.

    Args:
        name: any that Keras accepts (`HeNormal`, `he_normal`, `mse`), or `module:Class`.
        arguments: those of Keras' constructor.
    """

    __slots__ = ()
    # Module of Keras, and the class in it that all derive from; activations are functions.
    module: ClassVar[str] = ""
    base: ClassVar[str] = ""
    takes_functions: ClassVar[bool] = False

    def create(self) -> Any:
        """Make the object.

        Raises:
            RefusedObject: if there is no such class or function, or it does not take the arguments.
        """
        try:
            return self._made(self._custom() if ":" in self.name else self._of_keras())
        except Exception as error:  # an object of a user may raise anything
            kind = "" if isinstance(error, UsageError) else f"{type(error).__name__}: "
            raise RefusedObject(self, f"{kind}{error}") from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make the object and call it: so a layer that is only called accepts the value of a field of tfaip 1.2."""
        return self.create()(*args, **kwargs)

    def _made(self, found: Any) -> Any:
        inspect.signature(found).bind_partial(**self.arguments)  # a function is called much later
        if isinstance(found, type):
            return found(**self.arguments)
        layer = _LAYERS.get(found.__name__) if top_package(found.__module__) == "keras" else None
        if layer is not None and self.arguments:
            return getattr(importlib.import_module("keras.layers"), layer)(**self.arguments)
        return partial(found, **self.arguments) if self.arguments else found

    def _of_keras(self) -> Any:
        """Return the class of Keras, or the activation, that a name means in any spelling."""
        module: Any = importlib.import_module(f"keras.{self.module}")
        known = {_plain(name): value for name, value in vars(module).items() if self._is_object(value, module)}
        found = known.get(_plain(self.name))
        if found is None:
            try:
                short = module.get(str(self.name))  # such as mse
            except (ValueError, TypeError):
                short = None
            found = known.get(_plain(getattr(short, "__name__", type(short).__name__)))
        if found is None:
            near = did_you_mean(self.name, {value.__name__: None for value in known.values()})
            raise UsageError(f"keras.{self.module} has no {shorten(str(self.name))}{near} (or module:Class)")
        return found

    def _is_object(self, value: Any, module: Any) -> bool:
        if not self.base:
            return inspect.isfunction(value) and value.__name__ not in ("get", "serialize", "deserialize")
        base = getattr(module, self.base)
        return inspect.isclass(value) and issubclass(value, base) and value is not base

    def _custom(self) -> Any:
        """Import the class or function of a user."""
        found = import_named(self.name, str(self.name), "object")
        home = getattr(found, "__module__", None) or ""
        # A file may name a trusted package; what that imports from others is not meant.
        if top_package(home) != top_package(self.name.partition(":")[0]):
            raise UsageError(f"it is defined in {home or 'no module'}: name it there")
        module, base = (self.module, self.base) if self.base else ("layers", "Layer")
        is_function = self.takes_functions and not isinstance(found, type)
        if not is_function:
            kind = getattr(importlib.import_module(f"keras.{module}"), base)
            if not (isinstance(found, type) and issubclass(found, kind)):
                raise UsageError(f"expected a class derived from keras.{module}.{base}")
        elif isinstance(self.name, NameOfFile) and not is_nameable(found):
            raise UsageError(
                f"a file may name it only if it is marked with tfaip.params.nameable; if you know the file, trust it: "
                f"--trust {top_package(self.name.partition(':')[0])}"
            )
        return found


class Initializer(KerasObject):
    """An initializer: `Initializer("HeNormal", seed=1)`."""

    __slots__ = ()
    module, base = "initializers", "Initializer"
    choices = "Class of keras.initializers (keras.io/api/layers/initializers) or module:Class"


class Regularizer(KerasObject):
    """A regularizer: `Regularizer("L2", l2=0.01)`."""

    __slots__ = ()
    module, base = "regularizers", "Regularizer"
    choices = "Class of keras.regularizers (keras.io/api/layers/regularizers) or module:Class"


class Constraint(KerasObject):
    """A constraint of weights: `Constraint("MaxNorm", max_value=2)`."""

    __slots__ = ()
    module, base = "constraints", "Constraint"
    choices = "Class of keras.constraints (keras.io/api/layers/constraints) or module:Class"


class Activation(KerasObject):
    """An activation function: `Activation("leaky_relu", negative_slope=0.1)`."""

    __slots__ = ()
    module, takes_functions = "activations", True
    choices = "Function of keras.activations (keras.io/api/layers/activations) or module:function"


class Loss(KerasObject):
    """A loss: `Loss("Huber", delta=2.0)`."""

    __slots__ = ()
    module, base, takes_functions = "losses", "Loss", True
    choices = "Class of keras.losses (keras.io/api/losses) or module:Class"


class Metric(KerasObject):
    """A metric: `Metric("MeanIoU", num_classes=4)`; `accuracy` means the one that fits the shapes."""

    __slots__ = ()
    module, base, takes_functions = "metrics", "Metric", True
    choices = "Class of keras.metrics (keras.io/api/metrics) or module:Class"


def keras_object(value: Any, get: Callable[[Any], Any]) -> Any:
    """Return the object that params hold: of a `KerasObject`, or of what `keras.*.get` accepts."""
    return value.create() if isinstance(value, KerasObject) else get(value)


def _plain(name: str) -> str:
    return name.lower().replace("_", "")
