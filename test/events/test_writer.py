"""TensorBoard events, read back with TensorBoard."""

from __future__ import annotations

import io
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from test.support.commands import finish_command, start_python
from tfaip.errors import TfaipError
from tfaip.evaluator.precisionrecall import PrecisionRecallCurve
from tfaip.events.writer import EventWriter, write_hparams


def accumulator(directory: Path) -> Any:
    # The one that TensorBoard itself reads with.
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

    return EventAccumulator(str(directory), tensor_size_guidance={"scalars": 0, "images": 0}).Reload()


def scalars(directory: Path, tag: str) -> list[tuple[int, float]]:
    from tensorboard.util.tensor_util import make_ndarray

    return [(event.step, float(make_ndarray(event.tensor_proto))) for event in accumulator(directory).Tensors(tag)]


def images(directory: Path, tag: str, step: int | None = None) -> list[np.ndarray]:
    """The images of the only event (of a step)."""
    (event,) = (event for event in accumulator(directory).Tensors(tag) if step in (None, event.step))
    width, height, *encoded = event.tensor_proto.string_val
    decoded = [np.asarray(Image.open(io.BytesIO(png))) for png in encoded]
    assert {array.shape[:2] for array in decoded} == {(int(height), int(width))}
    return decoded


def rows(directory: Path, tag: str) -> list[tuple[int, list[list[float]]]]:
    """The points of curves, or the buckets of histograms."""
    from tensorboard.util.tensor_util import make_ndarray

    return [(event.step, make_ndarray(event.tensor_proto).tolist()) for event in accumulator(directory).Tensors(tag)]


def write(directory: Path, values: dict[int, dict[str, float]]) -> None:
    writer = EventWriter(directory)
    for step, logs in values.items():
        writer.scalars(logs, step)
    writer.close()


def test_scalars(tmp_path: Path) -> None:
    write(tmp_path, {1: {"loss": 2.5, "acc": 0.5}, 2: {"loss": float("nan")}, 5: {"loss": 0.25}})
    assert sorted(accumulator(tmp_path).Tags()["tensors"]) == ["acc", "loss"]
    assert scalars(tmp_path, "acc") == [(1, 0.5)]
    steps, values = zip(*scalars(tmp_path, "loss"), strict=True)
    assert steps == (1, 2, 5)
    np.testing.assert_array_equal(values, [2.5, np.nan, 0.25])
    metadata = accumulator(tmp_path).SummaryMetadata("loss")
    assert metadata.plugin_data.plugin_name == "scalars"


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path: Path) -> None:
    # The first process trained epochs 3 and 4, but was killed before their checkpoints.
    write(tmp_path, {epoch: {"loss": float(epoch), "old": 1.0} for epoch in (1, 2, 3, 4)})
    # Both files are of the same second, most of the time: their names still tell which one is read last.
    write(tmp_path, {epoch: {"loss": 10.0 * epoch} for epoch in (3,)})
    assert scalars(tmp_path, "loss") == [(1, 1.0), (2, 2.0), (3, 30.0)]
    assert scalars(tmp_path, "old") == [(1, 1.0), (2, 1.0)]


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    write(tmp_path, {1: {"loss": 1.0}, 2: {"loss": 2.0}})
    (old,) = tmp_path.iterdir()
    old.rename(tmp_path / "events.out.tfevents.9876543210.host.99999")
    for step in (3, 4):
        write(tmp_path, {step: {"loss": 1.0 * step}})
    assert scalars(tmp_path, "loss") == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    seconds = sorted(int(path.name.split(".")[3]) for path in tmp_path.iterdir())
    assert seconds == [9876543210, 9876543211, 9876543212]


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
    assert accumulator(tmp_path).SummaryMetadata("grey").plugin_data.plugin_name == "images"


def test_drawings_of_every_kind(tmp_path: Path) -> None:
    curve = PrecisionRecallCurve.of(np.array([1, 0, 1]), np.array([1.0, 0.5, 0.5]), 3)
    writer = EventWriter(tmp_path)
    writer.drawing("all", {"number": np.float32(0.5), "grey": np.zeros((1, 2, 1)), "deep": {"pr": curve}}, 4)
    writer.close()
    assert scalars(tmp_path, "all/number") == [(4, 0.5)]
    assert images(tmp_path, "all/grey")[0].tolist() == [[0, 0]]
    assert rows(tmp_path, "all/deep/pr") == [
        # True and false positives, true and false negatives, precision, recall at the thresholds 0, 1/2, 1.
        (4, [[2, 2, 1], [1, 1, 0], [0, 0, 1], [0, 0, 1], pytest.approx([2 / 3, 2 / 3, 1]), [1, 1, 0.5]])
    ]
    assert accumulator(tmp_path).SummaryMetadata("all/deep/pr").plugin_data.plugin_name == "pr_curves"


def test_histograms_of_finite_numbers(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    # Thirty buckets of width 1, of which the last has its upper edge too.
    writer.histogram("several", np.array([[0.0, 0.5, 1.0], [29.5, 30.0, np.nan]], np.float32), 3)
    writer.histogram("equal", np.full(7, -2), 3)
    writer.histogram("none", np.array([np.inf, np.nan]), 3)
    writer.close()
    buckets = [[left, left + 1, 0] for left in range(30)]
    buckets[0][2], buckets[1][2], buckets[29][2] = 2, 1, 2
    assert rows(tmp_path, "several") == [(3, buckets)]
    assert rows(tmp_path, "equal") == [(3, [*[[-2, -2, 0]] * 29, [-2, -2, 7]])]
    assert rows(tmp_path, "none") == [(3, [[0, 0, 0]] * 30)]
    assert accumulator(tmp_path).SummaryMetadata("none").plugin_data.plugin_name == "histograms"


@pytest.mark.parametrize("shape", [(3,), (3, 3), (1, 1, 3, 3, 1)])
def test_what_is_no_image_is_named(shape: tuple[int, ...], tmp_path: Path) -> None:
    writer = EventWriter(tmp_path)
    with pytest.raises(ValueError, match=r"image 'weights' has the shape .*, expected \[height, width, channels\]"):
        writer.image("weights", np.zeros(shape), 1)
    writer.close()
    assert list(tmp_path.iterdir()) == []


def test_the_file_appears_with_the_first_value(tmp_path: Path) -> None:
    writer = EventWriter(tmp_path / "train")
    writer.flush()
    writer.scalars({}, 1)
    assert not (tmp_path / "train").exists()
    writer.scalars({"loss": 1.0}, 1)
    writer.flush()
    assert scalars(tmp_path / "train", "loss") == [(1, 1.0)]
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
    assert scalars(tmp_path, "loss") == [(1, 1.0)]


def test_hyper_parameters_are_never_written_through_a_link(tmp_path: Path) -> None:
    theirs, hparams = tmp_path / "theirs", tmp_path / "hparams"
    theirs.write_text("theirs")
    for name in (".tmp-hparams", "hparams"):
        (tmp_path / name).symlink_to(theirs)
    write_hparams(hparams, {"lr": 0.1})
    assert theirs.read_text() == "theirs"
    assert hparams.is_file()
    assert not hparams.is_symlink()


def test_a_full_disk_is_told_with_the_directory(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = EventWriter(tmp_path / "train")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(TfaipError, match="train cannot be written: File too large$"):
            writer.scalars({f"value{i}": 0.0 for i in range(1000)}, 1)
        writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_hyper_parameters_that_cannot_be_written_leave_the_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "hparams"
    write_hparams(file, {"a": 1.0})
    before, limits = file.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(TfaipError, match=f"{file.name} cannot be written: File too large$"):
            write_hparams(file, {"a": "x" * 5000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]
