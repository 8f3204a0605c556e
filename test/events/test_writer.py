"""TensorBoard events, read back with TensorBoard."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from test.support.beside import full_disk
from test.support.commands import finish_command, start_python
from tfaip.errors import TfaipError
from tfaip.evaluator.precisionrecall import PrecisionRecallCurve
from tfaip.events.writer import EventWriter, write_hparams


def accumulator(directory: Path) -> Any:
    # The one that TensorBoard itself reads with.
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

    return EventAccumulator(str(directory), tensor_size_guidance={"scalars": 0, "images": 0}).Reload()


def points(directory: Path, tag: str) -> list[tuple[int, Any]]:
    """The numbers, points of curves or buckets of histograms of a tag, each with its step."""
    from tensorboard.util.tensor_util import make_ndarray

    return [(event.step, make_ndarray(event.tensor_proto).tolist()) for event in accumulator(directory).Tensors(tag)]


def images(directory: Path, tag: str, step: int | None = None) -> list[np.ndarray]:
    """The images of the only event (of a step)."""
    (event,) = (event for event in accumulator(directory).Tensors(tag) if step in (None, event.step))
    width, height, *encoded = event.tensor_proto.string_val
    decoded = [np.asarray(Image.open(io.BytesIO(png))) for png in encoded]
    assert {array.shape[:2] for array in decoded} == {(int(height), int(width))}
    return decoded


def write(directory: Path, steps: dict[int, dict[str, float]]) -> None:
    writer = EventWriter(directory)
    for step, logs in steps.items():
        writer.scalars(logs, step)
    writer.close()


def plugin(directory: Path, tag: str) -> str:
    return str(accumulator(directory).SummaryMetadata(tag).plugin_data.plugin_name)


def test_scalars(tmp_path: Path) -> None:
    write(tmp_path, {1: {"loss": 2.5, "acc": 0.5}, 2: {"loss": float("inf")}, 5: {"loss": 0.25}})
    assert sorted(accumulator(tmp_path).Tags()["tensors"]) == ["acc", "loss"]
    assert points(tmp_path, "acc") == [(1, 0.5)]
    assert points(tmp_path, "loss") == [(1, 2.5), (2, float("inf")), (5, 0.25)]
    assert plugin(tmp_path, "loss") == "scalars"


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    # The first process trained epochs 3 and 4, but was killed before their checkpoints.
    write(tmp_path, {epoch: {"loss": float(epoch), "old": 1.0} for epoch in (1, 2, 3, 4)})
    # Both files are of the same second, most of the time: their names still tell which one is read last.
    write(tmp_path, {3: {"loss": 30.0}})
    assert points(tmp_path, "loss") == [(1, 1.0), (2, 2.0), (3, 30.0)]
    assert points(tmp_path, "old") == [(1, 1.0), (2, 1.0)]


def test_images(tmp_path: Path) -> None:
    ramp = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3, 1)
    colours = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    writer = EventWriter(tmp_path)
    writer.image("grey", ramp, 1)
    writer.image("colour", colours, 1)
    writer.image("several", np.stack([colours, 255 - colours]), 1)
    writer.image("alpha", np.zeros((1, 1, 4), np.uint8), 1)
    writer.image("out_of_range", np.array([[[-1.0], [2.0]]]), 1)
    writer.close()
    assert images(tmp_path, "grey")[0].tolist() == [[0, 51, 102], [153, 204, 255]]
    np.testing.assert_array_equal(images(tmp_path, "colour"), [colours])
    np.testing.assert_array_equal(images(tmp_path, "several"), [colours, 255 - colours])
    assert images(tmp_path, "alpha")[0].shape == (1, 1, 4)
    assert images(tmp_path, "out_of_range")[0].tolist() == [[0, 255]]
    assert plugin(tmp_path, "grey") == "images"


def test_drawings_of_every_kind(tmp_path: Path) -> None:
    curve = PrecisionRecallCurve.of(np.array([1, 0, 1]), np.array([1.0, 0.5, 0.5]), 3)
    writer = EventWriter(tmp_path)
    writer.drawing("all", {"number": np.float32(0.5), "grey": np.zeros((1, 2, 1)), "deep": {"pr": curve}}, 4)
    writer.close()
    assert points(tmp_path, "all/number") == [(4, 0.5)]
    assert images(tmp_path, "all/grey")[0].tolist() == [[0, 0]]
    assert points(tmp_path, "all/deep/pr") == [
        # True and false positives, true and false negatives, precision, recall at the thresholds 0, 1/2, 1.
        (4, [[2, 2, 1], [1, 1, 0], [0, 0, 1], [0, 0, 1], pytest.approx([2 / 3, 2 / 3, 1]), [1, 1, 0.5]])
    ]
    assert plugin(tmp_path, "all/deep/pr") == "pr_curves"


def test_histograms_of_finite_numbers(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    # Thirty buckets of width 1, of which the last has its upper edge too.
    writer.histogram("several", np.array([[0.0, 0.5, 1.0], [29.5, 30.0, np.nan]], np.float32), 3)
    writer.histogram("equal", np.full(7, -2), 3)
    writer.histogram("none", np.array([np.inf, np.nan]), 3)
    writer.close()
    buckets = [[left, left + 1, 0] for left in range(30)]
    buckets[0][2], buckets[1][2], buckets[29][2] = 2, 1, 2
    assert points(tmp_path, "several") == [(3, buckets)]
    assert points(tmp_path, "equal") == [(3, [*[[-2, -2, 0]] * 29, [-2, -2, 7]])]
    assert points(tmp_path, "none") == [(3, [[0, 0, 0]] * 30)]
    assert plugin(tmp_path, "none") == "histograms"


def test_the_file_appears_with_the_first_value(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "train")
    writer.flush()
    writer.scalars({}, 1)
    for shape in [(3,), (3, 3), (1, 1, 3, 3, 1)]:
        with pytest.raises(ValueError, match=r"image 'w' has the shape .*, expected \[height, width, channels\]"):
            writer.image("w", np.zeros(shape), 1)
    assert not (tmp_path / "train").exists()
    writer.scalars({"loss": 1.0}, 1)
    writer.flush()
    assert points(tmp_path / "train", "loss") == [(1, 1.0)]
    writer.close()
    writer.close()


def test_writing_imports_no_backend(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
import numpy as np
from tfaip.evaluator.precisionrecall import PrecisionRecallCurve
from tfaip.events.writer import EventWriter, write_hparams
writer = EventWriter(Path({str(tmp_path)!r}))
writer.scalars({{"loss": 1.0}}, 1)
writer.drawing("image", np.zeros((2, 2, 1)), 1)
writer.drawing("pr", PrecisionRecallCurve(np.ones((4, 3))), 1)
writer.histogram("weights", np.ones(3), 1)
write_hparams(Path({str(tmp_path)!r}) / "hparams", {{"rate": 0.5, "name": "x", "is_on": True}})
writer.close()
print([name for name in ("tensorflow", "keras", "jax") if name in sys.modules])
"""
    result = finish_command(start_python("-c", code))
    assert (result.rc, result.stdout) == (0, "[]\n"), result
    assert points(tmp_path, "loss") == [(1, 1.0)]


def test_a_full_disk_is_told_with_the_directory_and_leaves_earlier_hyper_parameters(tmp_path: Path) -> None:
    with full_disk():
        writer, file = EventWriter(tmp_path / "train"), tmp_path / "hparams"
        with pytest.raises(TfaipError, match="train cannot be written: File too large$"):
            writer.scalars({f"value{i}": 0.0 for i in range(1000)}, 1)
        writer.close()
        write_hparams(file, {"a": 1.0})
        before = file.read_bytes()
        with pytest.raises(TfaipError, match="hparams cannot be written: File too large$"):
            write_hparams(file, {"a": "x" * 5000})
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hparams", "train"]
