"""`ParamsBase`: decorators, old names, unknown attributes."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import paiargparse
import pytest

from tfaip.params import ParamsBase, names as oldnames, pai_dataclass, post_init


@pai_dataclass
@dataclass
class Ours(ParamsBase):
    lr: float = 0.1


@paiargparse.pai_dataclass(alt="theirs")
@dataclass
class Theirs(Ours):
    decay: float = 0.9


class Bare(Theirs):
    alpha: float = 1.0

    @property
    def double(self) -> float:
        return self.alpha * 2

    @double.setter
    def double(self, value: float) -> None:
        self.alpha = value / 2


@pytest.fixture
def _renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldnames, "RENAMED_FIELDS", {"Ours": {"rate": "lr"}, "Theirs": {"fade": "decay"}})


def test_the_same_methods_whatever_the_decorator() -> None:
    for cls in (Ours, Theirs, Bare):
        assert cls.from_dict.__func__ is ParamsBase.from_dict.__func__  # type: ignore[attr-defined]
        assert cls.to_dict is ParamsBase.to_dict
        assert cls.__setattr__ is ParamsBase.__setattr__


def test_unknown_attribute_is_refused_with_the_nearest_name(subtests: pytest.Subtests) -> None:
    for cls in [Ours, Theirs, Bare]:
        with subtests.test(cls=cls):
            params = cls()
            with pytest.raises(AttributeError, match="lrr does not exist; did you mean lr"):
                params.lrr = 1
            with pytest.raises(AttributeError, match="lrr does not exist; did you mean lr"):
                _ = params.lrr
            with pytest.raises(TypeError, match="unexpected keyword argument 'lrr'"):
                cls(lrr=1)


def test_an_attribute_of_a_deeper_level_is_refused_with_its_path() -> None:
    class Inner(ParamsBase):
        units: int = 3

    class Middle(ParamsBase):
        first: Inner = field(default_factory=Inner)
        second: Inner = field(default_factory=Inner)

    class Outer(ParamsBase):
        model: Middle = field(default_factory=Middle)
        unit: int = 1

    params = Outer()
    hint = r"Outer.units does not exist; did you mean model\.first\.units or model\.second\.units\?"
    with pytest.raises(AttributeError, match=hint):
        _ = params.units  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=hint):
        params.units = 2  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"Inner.unit does not exist; did you mean units\?"):
        params.model.first.unit = 2  # type: ignore[attr-defined]


def test_properties_can_be_set() -> None:
    bare = Bare()
    bare.double = 8.0
    assert bare.alpha == 4.0


def test_attribute_errors_tell_what_happened() -> None:
    class Broken(Ours):
        late: int = field(init=False)

        @property
        def indirect(self) -> int:
            return self.late

    with pytest.raises(AttributeError, match=r"Broken\.late is not set yet"):
        _ = Broken().late
    with pytest.raises(AttributeError, match=r"Broken\.late is not set yet"):
        _ = Broken().indirect
    assert not hasattr(Ours(), "__no_such_protocol__")


@pytest.mark.usefixtures("_renamed")
def test_old_names_work_and_warn() -> None:
    with pytest.warns(DeprecationWarning, match=r"Bare\.rate is now called lr") as constructor:
        bare = Bare(rate=0.5)  # type: ignore[call-arg]
    assert bare.lr == 0.5
    with pytest.warns(DeprecationWarning, match=r"Bare\.fade is now called decay") as setter:
        bare.fade = 0.3
    # The warning shows the line to change.
    assert constructor[0].filename == setter[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"Bare\.fade is now called decay"):
        assert bare.fade == 0.3
    with pytest.warns(DeprecationWarning, match="rate"), pytest.raises(TypeError, match="both 'rate' .* and 'lr'"):
        Ours(rate=1, lr=2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        _ = Ours().fade


@pytest.mark.usefixtures("_renamed")
def test_old_names_reach_classes_without_a_constructor_of_their_own() -> None:
    @dataclass(init=False)
    class Inherited(Ours):
        pass

    with pytest.warns(DeprecationWarning, match=r"Inherited\.rate is now called lr"):
        assert Inherited(rate=0.5).lr == 0.5  # type: ignore[call-arg]


def test_a_constructor_of_ones_own_calls_that_of_its_base() -> None:
    class Own(Ours):
        size: int

        def __init__(self, size: int) -> None:
            super().__init__(lr=0.5)
            with pytest.raises(AttributeError, match="size is not set yet"):
                _ = self.size
            self.size = size

    assert (Own(3).lr, Own(3).size, list(inspect.signature(Own).parameters)) == (0.5, 3, ["size"])


def test_abstract_params_cannot_be_built() -> None:
    class Shape(ParamsBase, ABC):
        @abstractmethod
        def area(self) -> float: ...

    class Square(Shape):
        side: float = 2.0

        def area(self) -> float:
            return self.side**2

    with pytest.raises(TypeError, match="abstract"):
        Shape()  # type: ignore[abstract]
    assert Square().area() == 4.0


@dataclass
class Leaf(ParamsBase):
    name: str = ""
    seen: int = 0

    def __post_init__(self) -> None:
        ORDER.append(self.name)


@dataclass
class Root(ParamsBase):
    one: Leaf = field(default_factory=lambda: Leaf("one"))
    more: list[Leaf] = field(default_factory=lambda: [Leaf("a"), Leaf("b")])
    by_name: dict[str, Leaf] = field(default_factory=lambda: {"x": Leaf("c")})
    total: int = 0

    def __post_init__(self) -> None:
        ORDER.append("root")
        self.total = self.one.seen + sum(leaf.seen for leaf in self.more)


ORDER: list[str] = []


def test_post_init_runs_children_first_and_again() -> None:
    root = Root()
    root.one.seen, root.more[1].seen = 3, 4
    assert root.total == 0
    ORDER.clear()
    post_init(root)
    assert ORDER == ["one", "a", "b", "c", "root"]
    assert root.total == 7


def test_methods_are_those_of_a_dataclass() -> None:
    @dataclass
    class Plain:
        a: int = 1
        b: list[int] = field(default_factory=list, compare=False)
        c: str = field(default="c", repr=False)
        inner: Any = None

    class Params(ParamsBase):
        a: int = 1
        b: list[int] = field(default_factory=list, compare=False)
        c: str = field(default="c", repr=False)
        inner: Any = None

    class Same(Params):
        pass

    for cls in (Plain, Params):
        assert cls() == cls(b=[2])
        assert cls() != cls(c="d")
        assert cls() != Same()
        assert cls.__hash__ is None
        circle = cls(inner=cls(a=3, b=[4]))
        circle.inner.inner = circle
        name = cls.__qualname__
        assert repr(circle) == f"{name}(a=1, b=[], inner={name}(a=3, b=[4], inner=...))"


def test_methods_of_the_class_body_stay() -> None:
    class Params(ParamsBase):
        a: int = 1

        def __repr__(self) -> str:
            return "mine"

        def __hash__(self) -> int:
            return self.a

    class Loose(Params):
        def __eq__(self, other: object) -> bool:
            return True

    assert (repr(Params()), hash(Params(a=5))) == ("mine", 5)
    assert repr(Loose(a=2)) == f"{Loose.__qualname__}(a=2)"  # as `@dataclass` makes it for each class
    assert Loose(a=1) == Loose(a=2)
    assert Loose.__hash__ is None
