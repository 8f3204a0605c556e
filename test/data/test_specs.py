from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tfaip.data.specs import Spec, TensorSpec, as_input_specs, as_specs, export_name


@dataclass
class Sizes:
    """Has the fields that sizes name."""

    height: int = 5
    width: int | None = None
    scale: float = 1.5
    found: Any = field(default_factory=lambda: np.int64(3))

    @property
    def double(self) -> int:
        return 2 * self.height


def test_everything_with_shape_and_dtype_is_a_spec(subtests: pytest.Subtests) -> None:
    for spec, shape, dtype in [
        (TensorSpec([28, 28]), (28, 28), "float32"),
        (SimpleNamespace(shape=(None, 3), dtype="int32"), (None, 3), "int32"),
        (SimpleNamespace(shape=(1,), dtype="string"), (1,), "string"),
        (Spec(None, "height"), (None, 5), "float32"),
        (Spec(1, int), (1,), "int32"),
        (Spec(1, str), (1,), "string"),
        (Spec(3, dtype="int64"), (3,), "int64"),
        (Spec("width", "double", "found"), (None, 10, 3), "float32"),
    ]:
        with subtests.test(spec=spec):
            assert as_specs({"x": spec}, "D.inputs", Sizes()) == {"x": TensorSpec(shape, dtype)}


def test_errors_name_the_place(subtests: pytest.Subtests) -> None:
    for spec, error, message in [
        (TensorSpec([]), ValueError, "has shape \\[\\], expected at least one dimension: write \\[1\\]"),
        (SimpleNamespace(shape=None, dtype="int32"), TypeError, "shape of known rank"),
        (SimpleNamespace(shape=[1]), TypeError, "has dtype None"),
        (Spec("hight"), TypeError, "names the size 'hight', but Sizes has no such field; did you mean height?"),
        (Spec(1, "uint8"), TypeError, "expected one of: found, height, scale, width .a type: dtype="),
        (Spec("scale"), TypeError, "Sizes.scale is 1.5, expected an int"),
    ]:
        with subtests.test(spec=spec):
            with pytest.raises(error, match=message) as info:
                as_specs({"good": TensorSpec([1]), "x": spec}, "D._input_layer_specs", Sizes())
            assert str(info.value).startswith("D._input_layer_specs()['x']")


def test_sizes_and_types_are_refused_at_once(subtests: pytest.Subtests) -> None:
    for sizes in [(1.5,), (True,), (int, 3), ([1],)]:
        with (
            subtests.test(sizes=sizes),
            pytest.raises(TypeError, match="a size of Spec is .*, expected a number"),
        ):
            Spec(*sizes)
    with pytest.raises(TypeError, match="a size of Spec is <class 'int'>"):
        Spec(1, int, dtype="int32")
    assert repr(Spec(None, "height", int)) == "Spec(None, 'height', dtype='int32')"


def test_names_of_inputs_in_exports() -> None:
    keys = ["petal length", "seg.png", "class", "größe", "1st", "_x", "x"]
    exported = ["petal_length", "seg_png", "input_class", "gr__e", "input_1st", "input__x", "x"]
    assert list(map(export_name, keys)) == exported
    specs = dict.fromkeys(keys, Spec(1))
    assert list(as_input_specs(specs, "D.inputs")) == keys
    for twice in ("petal_length", "X"):
        with pytest.raises(ValueError, match=f"and '{twice}', both '{twice.lower()}' in an export: rename one"):
            as_input_specs(specs | {twice: Spec(1)}, "D.inputs")
