import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tfaip import PipelineMode, Sample
from tfaip.data.generators.listsfile import ListsFileGenerator, ListsFileGeneratorParams, TextLines
from tfaip.data.pipeline.datagenerator import scaled_sizes
from tfaip.errors import UsageError


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def samples_of(**params: Any) -> list[Sample]:
    generator = ListsFileGeneratorParams(**params).create(PipelineMode.TRAINING)
    assert len(generator) == len(list(generator.generate()))
    return list(generator.generate())


class Relative(ListsFileGenerator[ListsFileGeneratorParams]):
    def sample(self, line: str, list_file: Path) -> Sample:
        return Sample(inputs=list_file.parent / line)


def test_each_line_is_a_sample(tmp_path: Path) -> None:
    lists = [write(tmp_path / "a.txt", "# comment", "one", "", "  two words ", "ä"), write(tmp_path / "b.txt", "x")]
    samples = samples_of(lists=lists)
    assert [sample.inputs for sample in samples] == ["one", "two words", "ä", "x"]
    assert all(sample.inputs == sample.targets == sample.meta for sample in samples)
    # A subclass gives them another form.
    assert Relative(PipelineMode.PREDICTION, ListsFileGeneratorParams(lists=lists))[0].inputs == tmp_path / "one"


def test_ratios_repeat_the_lists_that_are_too_short(tmp_path: Path) -> None:
    lists = [write(tmp_path / "a.txt", "a0", "a1"), write(tmp_path / "b.txt", *[f"b{i}" for i in range(6)])]
    # b holds 6 of 4/4 shares of 6: a gets 3/2 of that, 9 samples, its lines 0 1 0 1 0 1 0 1 0.
    found = sorted(sample.inputs for sample in samples_of(lists=lists, list_ratios=[3, 2]))
    assert found == ["a0"] * 5 + ["a1"] * 4 + [f"b{i}" for i in range(6)]


@given(st.lists(st.tuples(st.integers(1, 1000), st.floats(0.1, 10)), min_size=1, max_size=5))
def test_scaled_sizes_have_the_ratios_and_lose_no_line(lists: list[tuple[int, float]]) -> None:
    sizes, ratios = [size for size, _ in lists], [ratio for _, ratio in lists]
    scaled = scaled_sizes(sizes, ratios)
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
    ],
)
def test_wrong_ratios_are_refused(tmp_path: Path, ratios: list[float], expected: str) -> None:
    lists = [write(tmp_path / "a.txt", "a")] * 2
    with pytest.raises(UsageError, match=rf"^list_ratios.* is .*, expected {expected}"):
        samples_of(lists=lists, list_ratios=ratios)


def test_unusable_lists_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="^no list file is given for the training: name at least one in lists$"):
        len(ListsFileGenerator(PipelineMode.TRAINING, ListsFileGeneratorParams()))
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    write(tmp_path / "empty.txt", "# nothing", "", "")
    for name, message in [
        ("missing.txt", r"cannot read the list file \S*missing.txt: No such file or directory; change lists$"),
        ("empty.txt", "empty.txt names no sample: all its lines are empty or comments"),
        ("binary.txt", "cannot read the list file .*binary.txt"),
    ]:
        with pytest.raises(UsageError, match=message) as caught:
            samples_of(lists=[str(tmp_path / name)])
        assert len(str(caught.value)) <= 400


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
