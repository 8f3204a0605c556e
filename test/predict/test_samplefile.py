"""Files of predicted samples: what is written comes back, to the last bit."""

import dataclasses
import io
import json
import pickle
import struct
import tracemalloc
import zipfile

import ml_dtypes
import numpy as np
import pytest

from test.support.beside import full_disk
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import TfaipError, UsageError
from tfaip.predict import samplefile
from tfaip.predict.samplefile import SampleWriter, read_samples

SUFFIXES = [".jsonl", ".npz"]


def round_trip(path, samples, **kwargs):
    with SampleWriter(path, **kwargs) as writer:
        for sample in samples:
            writer.write(sample)
    return list(read_samples(path))


def same(got, expected):
    assert type(got) is type(expected), (got, expected)
    if isinstance(expected, dict):
        assert got.keys() == expected.keys()
        for key in expected:
            same(got[key], expected[key])
    elif isinstance(expected, np.ndarray):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(got, expected)
    else:
        np.testing.assert_equal(got, expected)


@dataclasses.dataclass
class Origin:
    file: str
    line: int


FLOATS = np.array([[0.1, -0.0, np.nan], [np.inf, 1e-45, -0.3]], np.float32)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_values_come_back_with_type_and_shape(suffix, tmp_path):
    samples = [
        Sample(
            inputs={"img": np.full((2, 2), i, np.uint8)},
            outputs={"prob": FLOATS * i, "class": np.int64(i), "empty": np.zeros((0, 3)), "on": np.bool_(i % 2)},
            targets={"label": np.array([i], np.int32)},
            meta={"id": i, "where": ["a", None, 1.5, True]},
        )
        for i in range(1, 4)
    ]
    for got, sample in zip(round_trip(tmp_path / f"f{suffix}", samples), samples, strict=True):
        assert got.inputs is None
        for part in ("outputs", "targets", "meta"):
            same(getattr(got, part), getattr(sample, part))
    for got, sample in zip(round_trip(tmp_path / f"i{suffix}", samples, with_inputs=True), samples, strict=True):
        same(got.inputs, sample.inputs)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_samples_arrays_of_different_shapes_and_what_is_no_array(suffix, tmp_path):
    assert round_trip(str(tmp_path / f"f{suffix}"), []) == []
    samples = [
        Sample(outputs={"path": np.arange(i, dtype=np.int16), "grid": np.ones((2, i), np.float64)}, meta="x" * i)
        for i in range(3)
    ]
    for got, sample in zip(round_trip(tmp_path / f"a{suffix}", samples), samples, strict=True):
        same(got.outputs, sample.outputs)
        assert got.meta == sample.meta
    texts = [Sample(outputs=f"text {i}", meta=Origin("a.txt", i)) for i in range(3)]
    for i, got in enumerate(round_trip(tmp_path / f"b{suffix}", texts)):
        assert (got.outputs, got.meta, got.targets) == (f"text {i}", {"file": "a.txt", "line": i}, None)
    # Types that files do not know, and what is no array beside one.
    outputs = {"b": np.array([1.5, 2], ml_dtypes.bfloat16), "t": np.array([b"a", "ä".encode()], object)}
    (got,) = round_trip(tmp_path / f"t{suffix}", [Sample(outputs=outputs)])
    same(got.outputs, {"b": np.array([1.5, 2], np.float32), "t": ["a", "ä"]})
    mixed = [Sample(outputs={"words": ["a", "b"], "score": np.float32(0.1)}), Sample(outputs={"words": [], "score": 1})]
    first, second = round_trip(tmp_path / f"c{suffix}", mixed)
    same(first.outputs, mixed[0].outputs)
    same(second.outputs, mixed[1].outputs)


def test_what_other_programs_find(tmp_path):
    samples = [Sample(outputs={"prob": np.arange(2) + i}, meta=i) for i in range(3)]
    round_trip(tmp_path / "f.npz", samples)
    with np.load(tmp_path / "f.npz", allow_pickle=False) as file:
        assert sorted(file.files) == ["count", "meta:json", "outputs/prob"]
        np.testing.assert_array_equal(file["outputs/prob"], [[0, 1], [1, 2], [2, 3]])
    with SampleWriter(tmp_path / "f.jsonl") as writer:
        writer.write(Sample(outputs={"prob": np.array([0.5, 1])}, meta="a"))
        assert not (tmp_path / "f.jsonl").exists()
    (line,) = (tmp_path / "f.jsonl").read_text().splitlines()
    arrays = {"/outputs/prob": ["float64", [2]]}
    assert json.loads(line) == {"outputs": {"prob": [0.5, 1]}, "meta": "a", "arrays": arrays}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_error_leaves_what_was_there(suffix, tmp_path):
    path = tmp_path / f"f{suffix}"
    path.write_text("old")
    with pytest.raises(UsageError, match="is a object, which cannot be written as JSON"):
        round_trip(path, [Sample(outputs={"y": np.zeros(1)}, meta=meta) for meta in (1, object())])
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [(path.name, "old")]


def test_numpy_files_need_the_same_keys_in_every_sample(tmp_path):
    samples = [Sample(outputs={"a": np.zeros(1)}), Sample(outputs={"a": np.zeros(1), "b": np.zeros(1)})]
    with pytest.raises(UsageError, match=r"not all have outputs/b: write a \.jsonl file"):
        round_trip(tmp_path / "f.npz", samples)
    assert list(tmp_path.iterdir()) == []
    assert len(round_trip(tmp_path / "f.jsonl", samples)) == 2


def test_other_names_are_refused(tmp_path):
    for name in ("f.pkl", "f"):
        for use in (SampleWriter, lambda path: list(read_samples(path))):
            with pytest.raises(UsageError, match=r"ends in \.jsonl or \.npz"):
                use(tmp_path / name)
    with pytest.raises(UsageError, match="there is no directory"):
        SampleWriter(tmp_path / "no" / "f.npz")
    with pytest.raises(UsageError, match=r"f\.npz cannot be read: No such file"):
        list(read_samples(tmp_path / "f.npz"))


class Evil:
    def __reduce__(self):
        return (open, ("executed", "w"))


def pickled_array():
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Evil()]), allow_pickle=True)
    return buffer.getvalue()


def npz_of(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def zip_of(content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in content.items():
            file.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_is_told_with_the_name_of_the_file(suffix, tmp_path):
    path = tmp_path / f"f{suffix}"
    error = pytest.raises(TfaipError, match=rf"f{suffix} cannot be written: File too large")
    with full_disk(), error, SampleWriter(path) as f:
        f.write(Sample(outputs={"y": np.zeros(100_000)}))
    assert list(tmp_path.iterdir()) == []


def npy_of(header):
    """A `.npy` file with this header and no data."""
    text = repr(header).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def header_of(dtype, shape):
    return npy_of({"descr": dtype, "fortran_order": False, "shape": shape})


def jsonl_of(y, kind, shape):
    return f'{{"outputs": {{"y": {y}}}, "arrays": {{"/outputs/y": [{kind}, {shape}]}}}}\n'.encode()


HOSTILE = {
    "no JSON": ("f.jsonl", b"no json\n"),
    "deep": ("f.jsonl", b"[" * 100_000),
    "another shape": ("f.jsonl", jsonl_of("[1, 2]", '"float32"', "[3]")),
    "text type": ("f.jsonl", jsonl_of('["a"]', '"<U500000000"', "[1]")),
    "object type": ("f.jsonl", jsonl_of("[1]", '"O"', "[1]")),
    "large shape": ("f.jsonl", jsonl_of("[1]", '"int8"', "[4611686018427387904]")),
    "large count": ("f.npz", npz_of(count=10**12)),
    "empty rows": ("f.npz", npz_of(count=2 * 10**6, **{"outputs/y": np.zeros((2 * 10**6, 0))})),
    "another count": ("f.npz", npz_of(count=1, **{"outputs/y": np.zeros(2)})),
    "shapes": ("f.npz", npz_of(count=1, **{"outputs/y": np.zeros(3), "outputs/y:shape": np.array([[1], [2]])})),
    "pickle": ("f.npz", pickle.dumps(Evil())),
    "pickled array": ("f.npz", zip_of({"count.npy": pickled_array()})),
    "other member": ("f.npz", zip_of({"other.npy": b""})),
    "deep header": ("f.npz", zip_of({"count.npy": npy_of("(" * 5000)})),
    "same name twice": ("f.npz", zip_of({"count": b"", "count.npy": header_of("<f4", (0,))})),
}
HEADERS = [("<f8", (10**9,)), ("<U500000000", (1,)), ("<U0", (2**62,)), ("<f4", (2**62, 0)), ("<f4", (-1, 0))]
HOSTILE |= {f"array {header}": ("f.npz", zip_of({"count.npy": header_of(*header)})) for header in HEADERS}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_runs_nothing_and_takes_no_more_memory_than_its_own_size(case, tmp_path, monkeypatch):
    name, content = HOSTILE[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(content)
    tracemalloc.start()
    with pytest.raises(UsageError, match=f"{name} holds no predicted samples, or is damaged") as caught:
        list(read_samples(tmp_path / name))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    message = str(caught.value).replace(str(tmp_path), "")
    assert "\n" not in message
    assert len(message) <= 300
    assert peak < 3 * len(content) + (4 << 20)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_line_that_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(samplefile, "_LINE_BYTES", 1 << 20)  # 64 MiB take long
    with (
        pytest.raises(UsageError, match=r"takes 5 MiB as JSON, of at most 1: write a .npz file instead"),
        SampleWriter(tmp_path / "f.jsonl") as writer,
    ):
        writer.write(Sample(outputs={"y": np.full(1_100_000, 100, np.uint8)}))
    assert list(tmp_path.iterdir()) == []


def test_a_table_has_a_row_per_sample_and_a_column_per_key(tmp_path, caplog):
    caplog.set_level("INFO")
    path = tmp_path / "a.csv"
    with SampleWriter(path) as writer:
        for name, prob in [("a", [0.5, 0.5]), ('b,"', [1.0])]:
            outputs = {"class": name, "n": np.array([3], np.int64), "prob": np.array(prob, np.float32), "none": None}
            writer.write(Sample(outputs=outputs, targets=np.float32(2), meta=[{"line": 1}]))
    assert path.read_text().splitlines() == [
        "outputs/class,outputs/n,outputs/prob,outputs/none,targets,meta",
        'a,3,"[0.5, 0.5]",,2.0,"[{""line"": 1}]"',
        '"b,""",3,1.0,,2.0,"[{""line"": 1}]"',
    ]
    assert caplog.messages == [f"wrote {path}"]
    with SampleWriter(path) as writer:
        writer.write(Sample(outputs={"a": 1}))
        with pytest.raises(UsageError, match=r"not all have outputs/b: write a \.jsonl file"):
            writer.write(Sample(outputs={"a": 1, "b": 2}))
    with pytest.raises(UsageError, match=r"ends in \.jsonl or \.npz$"):
        list(read_samples(path))
