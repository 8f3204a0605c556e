"""Samples of files: each generator against the reader of its format, which reads in the order of the file.

    python benchmarks/formats.py [--only parquet images] [--samples 20000] [--repeat 7]

A sample is a vector of 750 float32 numbers (3 kB) and a class; of images, a PNG of 32x32 and a class. The
generators read in order and, as a training does, in random order. The peers: pyarrow by batches of 1,000 rows,
and Pillow.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.data.generators.arrow import Parquet
from tfaip.data.generators.imagefolder import ImageFolder
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.util.terminal import print_table

SIZE = 750
CLASSES = 10
Reader = Callable[[Path], Iterable[tuple[Any, int]]]


@dataclass(frozen=True)
class Format:
    """A format.

    Args:
        write: writes vectors and classes to a path.
        generator: reads them.
        peers: other readers by name, which yield each sample.
    """

    write: Callable[[Path, np.ndarray, np.ndarray], None]
    generator: Callable[[Path], Any]
    peers: dict[str, Reader]


def columns(path: Path) -> dict[str, Any]:
    return {"files": [str(path)], "input_columns": ["x"], "target_columns": ["y"]}


def write_parquet(path: Path, vectors: np.ndarray, classes: np.ndarray) -> None:
    import pyarrow
    from pyarrow import parquet

    x = pyarrow.FixedSizeListArray.from_arrays(vectors.ravel(), SIZE)
    parquet.write_table(pyarrow.table({"x": x, "y": classes}), path, row_group_size=1000)


def with_pyarrow(path: Path) -> Iterator[tuple[Any, int]]:
    from pyarrow import parquet

    for batch in parquet.ParquetFile(path).iter_batches(1000):
        vectors = batch.column("x").flatten().to_numpy().reshape(-1, SIZE)
        yield from zip(vectors, batch.column("y").to_pylist(), strict=True)


def write_images(path: Path, vectors: np.ndarray, classes: np.ndarray) -> None:
    from PIL import Image

    for number, (vector, label) in enumerate(zip(vectors, classes, strict=True)):
        directory = path / str(label)
        directory.mkdir(parents=True, exist_ok=True)
        pixels = np.resize((vector * 255).astype("uint8"), (32, 32))
        Image.fromarray(pixels).save(directory / f"{number:06}.png")


def with_pillow(path: Path) -> Iterator[tuple[Any, int]]:
    from PIL import Image

    for file in sorted(path.glob("*/*.png")):
        with Image.open(file) as image:
            yield np.asarray(image)[..., None], int(file.parent.name)


FORMATS = {
    "parquet": Format(write_parquet, lambda path: Parquet(**columns(path)), {"pyarrow": with_pyarrow}),
    "images": Format(write_images, lambda path: ImageFolder(folder=str(path), channels=1), {"Pillow": with_pillow}),
}


def ours(kind: Format, is_random: bool) -> Reader:
    def read(path: Path) -> Iterator[tuple[Any, int]]:
        samples = kind.generator(path).create(PipelineMode.TRAINING)
        order = np.random.default_rng(1).permutation(len(samples)) if is_random else range(len(samples))
        for index in order:
            sample = samples[int(index)]
            (value,), (label,) = sample.inputs.values(), sample.targets.values()
            yield value, int(np.ravel(label)[0])

    return read


def seconds(read: Reader, path: Path, expected: int) -> float:
    """Return the time of one pass; end unless it has read the samples."""
    begin = time.perf_counter()
    total = sum(label for _, label in read(path))
    took = time.perf_counter() - begin
    if total != expected:
        raise SystemExit(f"other samples were read: the sum of the classes is {total} instead of {expected}")
    return took


def main() -> None:
    """Parse the command line, and race each generator with its peers, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(FORMATS), default=list(FORMATS))
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=7)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    vectors = rng.random((args.samples, SIZE), dtype=np.float32)
    classes = rng.integers(CLASSES, size=args.samples)
    rows = []
    for name in args.only:
        kind = FORMATS[name]
        readers = {"generator": ours(kind, False), "random order": ours(kind, True), **kind.peers}
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "data")
            kind.write(path, vectors, classes)
            times: dict[str, list[float]] = {reader: [] for reader in readers}
            for _ in range(args.repeat):
                for reader, read in readers.items():
                    times[reader].append(seconds(read, path, int(classes.sum())))
        for reader, found in times.items():
            ratio = statistics.median(a / b for a, b in zip(times["generator"], found, strict=True))
            speed = args.samples / statistics.median(found)
            rows.append([name, reader, f"{speed:,.0f}", "" if reader == "generator" else f"{ratio:.2f}"])
    print_table(["format", "reader", "samples/s", "time of the generator / of it"], rows)


if __name__ == "__main__":
    main()
