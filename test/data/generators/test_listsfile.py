from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tfaip.data.generators.listsfile import ListsFileGenerator, ListsFileGeneratorParams, TextLines
from tfaip.data.pipeline.datagenerator import scaled_sizes
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def lines_of(mode: PipelineMode = PipelineMode.TRAINING, **params: Any) -> list[str]:
    generator = ListsFileGeneratorParams(**params).create(mode)
    return [sample.inputs for sample in generator.generate()]


def test_each_line_is_a_sample(tmp_path: Path) -> None:
    lists = [write(tmp_path / "a.txt", "# comment", "one", "", "  two words ", "ä"), write(tmp_path / "b.txt", "x")]
    generator = ListsFileGeneratorParams(lists=lists).create(PipelineMode.TRAINING)
    assert len(generator) == 4
    samples = list(generator.generate())
    assert [sample.inputs for sample in samples] == ["one", "two words", "ä", "x"]
    assert all(sample.inputs == sample.targets == sample.meta for sample in samples)


def test_a_subclass_gives_samples_another_form(tmp_path: Path) -> None:
    class Relative(ListsFileGenerator[ListsFileGeneratorParams]):
        def sample(self, line: str, list_file: Path) -> Sample:
            return Sample(inputs=list_file.parent / line)

    params = ListsFileGeneratorParams(lists=[write(tmp_path / "a.txt", "image.png")])
    assert Relative(PipelineMode.PREDICTION, params)[0].inputs == tmp_path / "image.png"


def test_ratios_repeat_the_lists_that_are_too_short(tmp_path: Path) -> None:
    lists = [write(tmp_path / "a.txt", "a0", "a1"), write(tmp_path / "b.txt", *[f"b{i}" for i in range(6)])]
    # b holds 6 of 4/4 shares of 6: a gets 3/2 of that, 9 samples, its lines 0 1 0 1 0 1 0 1 0.
    counts = Counter(lines_of(lists=lists, list_ratios=[3, 2]))
    assert counts == Counter({"a0": 5, "a1": 4, **{f"b{i}": 1 for i in range(6)}})


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0.1, 10)), min_size=1, max_size=5))
def test_scaled_sizes_have_the_ratios_and_lose_no_line(lists: list[tuple[int, float]]) -> None:
    sizes, ratios = [size for size, _ in lists], [ratio for _, ratio in lists]
    scaled = scaled_sizes(sizes, ratios, None, "")
    assert all(new >= old for new, old in zip(scaled, sizes, strict=True))
    assert any(new == old for new, old in zip(scaled, sizes, strict=True))
    units = [new / ratio for new, ratio in zip(scaled, ratios, strict=True)]
    assert max(units) - min(units) <= 1 / min(ratios)  # equal but for rounding


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([1.0], "one number for each of the 2"),
        ([1.0, 0.0], "a .*number above 0"),
        ([1.0, float("inf")], "a .*number above 0"),
        ([1e-320, 1.0], "ratios that give a pass at most 1,000,000,000"),
        ([1e-10, 1.0], "ratios that give a pass at most 1,000,000,000"),
    ],
)
def test_wrong_ratios_are_refused(tmp_path: Path, ratios: list[float], expected: str) -> None:
    lists = [write(tmp_path / "a.txt", "a")] * 2
    with pytest.raises(UsageError, match=rf"^list_ratios.* is .*, expected {expected}"):
        lines_of(lists=lists, list_ratios=ratios)


def test_unusable_lists_are_named(tmp_path: Path) -> None:
    for mode, flag in (("training", "--train"), ("evaluation", "--val"), ("prediction", "--data")):
        with pytest.raises(UsageError, match=f"no list file is given for the {mode}: .* {flag}.lists FILE"):
            len(ListsFileGenerator(PipelineMode(mode), ListsFileGeneratorParams()))
    with pytest.raises(
        UsageError, match=r"cannot read the list file \S*missing.txt: No such file or directory; change lists$"
    ):
        lines_of(lists=[str(tmp_path / "missing.txt")])
    with pytest.raises(UsageError, match="empty.txt names no sample: all its lines are empty or comments"):
        lines_of(lists=[write(tmp_path / "empty.txt", "# nothing", "", "")])
    for name in ("a\0b", "x" * 5000):
        with pytest.raises(
            UsageError, match=r"cannot read the list file .*(NUL character|name too long); change lists$"
        ) as caught:
            lines_of(lists=[name])
        assert len(str(caught.value)) <= 300
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read the list file .*binary.txt"):
        lines_of(lists=[str(tmp_path / "binary.txt")])


def expected_lines(content: bytes, ignore_prefix: str) -> list[str]:
    """The same by Python's own reader."""
    lines = [line.strip() for line in io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig")]
    return [line for line in lines if line and not (ignore_prefix and line.startswith(ignore_prefix))]


PIECES = [*"a \t#\n\r\x0c\x1c\x85ä\u2028\u3000😀\ufeff", "bc d", ";;", "\r\n"]


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.sampled_from(["", "#", ";", "ä", " #"]))
def test_lines_are_those_that_python_reads(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], prefix: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces.txt"
    path.write_bytes("".join(pieces).encode())
    assert list(TextLines(path, prefix)) == expected_lines(path.read_bytes(), prefix)
