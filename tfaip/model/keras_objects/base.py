"""Keras objects as params: an initializer, regularizer, loss ... by its name and arguments. Needs no backend.

The modules beside this one hold a class per object of Keras, written by `tools/keras_objects.py`: its fields are the
arguments. So the command line knows names, arguments, types and defaults without Keras.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NoReturn, Self

from tfaip.errors import UsageError
from tfaip.params import ParamsBase
from tfaip.params.names.nameable import is_nameable
from tfaip.params.names.trust import Trust, import_named, top_package
from tfaip.params.options import option
from tfaip.params.resolution.choices import ClassChoice
from tfaip.params.tree.nodes import field_default, has_default, is_node, node_fields
from tfaip.params.types.objects import ObjectName, ObjectNameOfFile, checked_object_name
from tfaip.util.text import ERROR_LIMIT, shorten_text

# Activations of which Keras has a layer with the same arguments.
_LAYERS = {"relu": "ReLU", "leaky_relu": "LeakyReLU", "elu": "ELU", "softmax": "Softmax"}


class RefusedObject(UsageError, ValueError):
    """An object that cannot be made from its params.

    Args:
        params: those of the object.
        reason: the message of Keras or of the import.
    """

    def __init__(self, params: KerasObject, reason: str) -> None:
        self.params = params
        super().__init__(f"{params.described()} cannot be made: {shorten_text(reason, ERROR_LIMIT)}")


class KerasObject(ParamsBase):
    """An object of Keras: the class of the params is its name, the fields are its arguments.

    A user describes an object of their own by a subclass of `Initializer`, `Loss` ... with annotated arguments:
    `class Sparse(Initializer, cls=".layers:Sparse")`. Without one its name alone is enough:
    `--model.kernel_initializer my_package.layers:Sparse`.
    """

    __kind__: ClassVar[str] = ""
    __functions__: ClassVar[bool] = False
    __other_names__: ClassVar[tuple[str, ...]] = ()
    __custom__: ClassVar[type[KerasObject] | None] = None

    def __init_subclass__(
        params_cls, *, kind: str | None = None, functions: bool = False, names: tuple[str, ...] = (), **kwargs: Any
    ) -> None:  # noqa: N804
        """Declare an object, or a kind of objects.

        Args:
            kind: base class of the objects of this kind, such as `keras.initializers:Initializer`.
            functions: objects of this kind may be functions, too.
            names: further names that select the class, such as `he_normal`.
            kwargs: of `ParamsBase`.
        """
        super().__init_subclass__(**kwargs)
        params_cls.__other_names__ = names
        if kind is not None:
            params_cls.__kind__, params_cls.__functions__ = kind, functions
        bases: tuple[Any, ...] = params_cls.__bases__
        if len(bases) == 2 and bases[0].__name__ == "CustomObject":
            bases[1].__custom__ = params_cls

    @staticmethod
    def cls() -> Any:
        """Return the Keras class, or the function of an activation."""
        raise NotImplementedError("name the class of Keras: class MyInitializer(Initializer, cls='module:Class')")

    @classmethod
    def from_name(cls, name: str, place: str, trusted: Trust | None = None) -> Self:
        """Return the params of the object that has a name of Keras, with its default arguments.

        Args:
            name: such as `l2`, `HeNormal`, `my_package>Mine` (registered) or `module:Class`.
            place: flag or dotted path, for messages.
            trusted: what a file may name; None: the name is no file's, and may be anything.

        Raises:
            UsageError: if there is no such name, a file must not name it, or the object has arguments without a
                default.
        """
        chosen = ClassChoice(cls, {}).select(name, place, trusted)
        arguments = {}
        if issubclass(chosen, CustomObject):
            arguments["name"] = checked_object_name(name, trusted, place)
        try:
            made: Self = chosen(**arguments)
        except TypeError as error:
            missing = [field.name for field in node_fields(chosen) if not has_default(field)]
            raise UsageError(f"{place}: {name} needs a value for {', '.join(missing)}") from error
        return made

    def create(self) -> Any:
        """Make the object.

        Raises:
            RefusedObject: if the class does not exist, or does not take the arguments.
        """
        try:
            return self._made()
        except UsageError as error:
            raise RefusedObject(self, str(error)) from error
        except Exception as error:  # an object of a user may raise anything
            raise RefusedObject(self, f"{type(error).__name__}: {error}") from error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make the object and call it.

        So a layer that is only called accepts the params themselves, where scenarios of tfaip 1.2 pass a name. Whatever
        Keras stores needs the object of `create()`: every layer of a `keras.Model`, and `.keras` files.
        """
        return self.create()(*args, **kwargs)

    def get_config(self) -> NoReturn:
        """Raise an error that says what to pass: Keras asks its objects for their config, which params do not have.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"{self.described()} is a params object, which Keras cannot store: pass the object that its create() "
            f"returns, as in kernel_initializer=params.kernel_initializer.create()"
        )

    def plain_name(self) -> str | None:
        """Return the name that Keras has for the object, if all arguments are defaults; None: no name says all."""
        cls = type(self)
        if self.given_arguments() or top_package(cls.__module__) != "tfaip":
            return None
        same = [name for name in cls.__other_names__ if name.replace("_", "") == cls.__name__.lower()]
        return next(iter(same), cls.__name__)

    def described(self) -> str:
        """Return the name with the arguments that are not defaults, as Python has it."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.given_arguments().items())
        return f"{type(self).__name__}({given})"

    def call_arguments(self) -> dict[str, Any]:
        """Return all arguments by name."""
        return {field.name: getattr(self, field.name) for field in node_fields(self)}

    def given_arguments(self) -> dict[str, Any]:
        """Return the arguments that are not the defaults of Keras."""
        defaults = {field.name: field_default(field) for field in node_fields(self)}
        return {name: value for name, value in self.call_arguments().items() if value != defaults[name]}

    def _made(self) -> Any:
        return self.cls()(**self.call_arguments())


class KerasFunction(KerasObject):
    """A function of Keras: an activation."""

    def __init_subclass__(params_cls, *, names: tuple[str, ...] = (), **kwargs: Any) -> None:  # noqa: N804
        super().__init_subclass__(names=names, **kwargs)
        if names:
            params_cls.__alt_name__ = names[0]

    def _made(self) -> Any:
        function = self.cls()
        given = self.given_arguments()
        layer = _LAYERS.get(function.__name__)
        if layer is not None and given:
            # Keras can store a layer with its arguments; of a function only the name.
            return getattr(importlib.import_module("keras.layers"), layer)(**given)
        return partial(function, **given) if given else function


class CustomObject(KerasObject):
    """An object that is not one of Keras: `module:Class`, or the name that it was registered with."""

    name: ObjectName = option(ObjectName(""), "module:Class, or package>Name of a registered class")
    arguments: dict[str, Any] = option(factory=dict, help="Arguments of the constructor, as name=value")

    def described(self) -> str:
        """Return the name with the arguments, as Python has it."""
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"

    def found(self) -> Any:
        """Return the class or function of the name.

        Raises:
            UsageError: if there is none, or it was defined elsewhere.
        """
        if ":" not in self.name:
            saving = importlib.import_module("keras.saving")
            registered = saving.get_registered_object(self.name)
            if registered is None:
                raise UsageError("no class is registered by this name (keras.saving.register_keras_serializable)")
            return registered
        found = import_named(self.name, str(self.name), "object")
        home = getattr(found, "__module__", None) or ""
        # A file may name a trusted package; what that imports from others is not meant.
        if top_package(home) != top_package(self.name.partition(":")[0]):
            raise UsageError(f"it is defined in {home or 'no module'}: name it there")
        if isinstance(found, type) and issubclass(found, ParamsBase):
            raise UsageError("it is a class of params: import it in the module of your params, and give its short name")
        return found

    def _made(self) -> Any:
        found = self.found()
        is_class = isinstance(found, type)
        module, _, base = self.__kind__.partition(":")
        if is_class and not issubclass(found, getattr(importlib.import_module(module), base)):
            raise UsageError(f"it does not derive from {module}.{base}")
        if not is_class and not self.__functions__:
            raise UsageError(f"expected a class derived from {module}.{base}")
        if not is_class and isinstance(self.name, ObjectNameOfFile) and not is_nameable(found):
            raise UsageError(
                f"a file may name it only if it is marked with tfaip.params.nameable; if you know the file, trust it: "
                f"--trust {top_package(self.name.partition(':')[0])}"
            )
        if is_class:
            return found(**self.arguments)
        return partial(found, **self.arguments) if self.arguments else found


def keras_object(value: Any, get: Callable[[Any], Any]) -> Any:
    """Return the object that params hold, in any form.

    Args:
        value: `KerasObject`, name, an object of Keras, or None.
        get: `keras.initializers.get`, or that of another kind.
    """
    return value.create() if isinstance(value, KerasObject) else get(value)


def find_params(root: Any, wanted: KerasObject, path: str = "") -> str | None:
    """Return the dotted path of a node of a params tree, which is found by identity; None: it is not there."""
    if root is wanted:
        return path
    if is_node(root):
        items = {field.name: getattr(root, field.name, None) for field in node_fields(root)}
    elif isinstance(root, list | tuple):
        items = {str(index): item for index, item in enumerate(root)}
    else:
        items = dict(root) if isinstance(root, dict) else {}
    for name, item in items.items():
        found = find_params(item, wanted, f"{path}.{name}" if path else str(name))
        if found is not None:
            return found
    return None
