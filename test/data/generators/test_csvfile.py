import csv
import tracemalloc
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tfaip import Data, PipelineMode, Sample, Spec
from tfaip.data.generators.csvfile import CsvGeneratorParams
from tfaip.data.generators.mixed import Mixed
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.errors import UsageError


class CodeData(Data):
    inputs, targets = {"code": Spec(1, str)}, {"y": Spec(1)}


def read(*files: Path, **params: Any) -> list[Sample]:
    generator = CsvGeneratorParams(files=[str(file) for file in files], **params).create(PipelineMode.TRAINING)
    assert len(generator) == len(list(generator.generate()))
    return list(generator.generate())


def test_rows_are_samples(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("\ufeffwidth,height,name,label\n1,2.5,ab,0\n-3,nan,1_0,1\n", encoding="utf-8")
    second.write_text('label,name,height,width\n1,"x,\ny",1e3,7\n', encoding="utf-8")
    samples = read(first, second, input_columns=["width", "height", "name"], target_columns=["label"])
    assert samples[0].inputs == {"width": 1, "height": 2.5, "name": "ab"}
    assert samples[1].inputs["name"] == "1_0"
    assert samples[1].inputs["height"] != samples[1].inputs["height"]
    assert samples[2].inputs == {"width": 7, "height": 1000.0, "name": "x,\ny"}
    assert [sample.targets["label"] for sample in samples] == [0, 1, 1]
    assert samples[1].meta == {"file": str(first), "line": 3}
    assert isinstance(samples[0].inputs["width"], int)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("begin", ["", "\ufeff"])
def test_rows_are_those_of_the_csv_module(tmp_path: Path, end: str, begin: str) -> None:
    rows = [["é", 'a "b"'], ["", ""], [f"1{end}{end}2", ","], [" ", "\u2028\x0b"], ["x", f"{end}"], ["7", "ünd"]]
    stream = StringIO(newline="")
    writer = csv.writer(stream, lineterminator=end)
    writer.writerow(["x", "y"])
    for row in rows:
        stream.write(end * 2)
        writer.writerow(row)
    file = tmp_path / "a.csv"
    file.write_bytes((begin + stream.getvalue()).encode())
    expected = [["é", 'a "b"'], ["", ""], *rows[2:5], [7, "ünd"]]
    assert [list(sample.inputs.values()) for sample in read(file, input_columns=["x", "y"])] == expected


def test_many_rows_take_some_bytes_each(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("x\n" + "1\n" * 20_000)
    tracemalloc.start()
    try:
        generator: Any = CsvGeneratorParams(files=[str(file)], input_columns=["x"]).create(PipelineMode.TRAINING)
        assert len(generator) == 20_000
        assert tracemalloc.get_traced_memory()[1] < 10 * file.stat().st_size
    finally:
        tracemalloc.stop()
    assert (generator[19_999].inputs, generator[19_999].meta["line"]) == ({"x": 1}, 20_001)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n1\n", r"a.csv, line 2: expected 2 columns"),
        ("a,b\n1,2\n", "has no column x, y: it has 'a', 'b'$"),
        ("", "has no column x, y: it has nothing$"),
        ('x,y\n1,"2\n', "cannot read the CSV file .*a.csv: unexpected end of data"),
        ("x,x,y\n1,2,3\n", "has the column x twice in its header"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(UsageError, match=message):
        read(tmp_path / "a.csv", input_columns=["x"], target_columns=["y"])


def test_missing_files_are_named(tmp_path: Path) -> None:
    for path, reason in [
        (tmp_path / "b.csv", "No such file or directory"),
        ("a\0b", "NUL character"),
        ("x" * 5000, "name too long"),
    ]:
        with pytest.raises(UsageError, match=rf"^cannot read the CSV file .*{reason}; change files$") as caught:
            read(Path(path))
        assert len(str(caught.value)) <= 300
    with pytest.raises(UsageError, match="^no CSV file is given for the training: name at least one in files$"):
        read()


def test_texts_stay_as_they_are_where_the_spec_is_text(tmp_path: Path) -> None:
    texts = ["007", "0042", "1E5", "nan", "inf", "12", "NA", ""]
    file = tmp_path / "codes.csv"
    file.write_text("code,y\n" + "".join(f"{text},{number}\n" for number, text in enumerate(texts)))
    params = CsvGeneratorParams(files=[str(file)], input_columns=["code"], target_columns=["y"])
    both = Mixed(sources=[params, params])
    for source, times in [(params, 1), (both, 2)]:
        pipeline = CodeData().create().create_pipeline(DataPipelineParams(mode="evaluation", num_processes=0), source)
        with pipeline.generate_input_batches() as batches:
            (batch,) = batches
        assert sorted(batch.inputs["code"][:, 0]) == sorted(texts * times)
        assert sorted(batch.targets["y"][:, 0]) == sorted([*range(8)] * times)
    assert read(file, input_columns=["code"])[0].inputs == {"code": 7}


def test_columns_that_are_not_read_may_be_anything(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("score,score,y\n1,2," + "word " * 40_000)  # longer than the csv module reads by default
    assert len(read(file, input_columns=["y"])[0].inputs["y"]) == 200_000
    file.write_text("code, y\n1,2\n")
    assert read(file, delimiter=";", input_columns=["code, y"])[0].inputs == {"code, y": "1,2"}
