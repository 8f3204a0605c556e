"""Samples per second of the same work through our pipeline, grain, torch's DataLoader, tf.data, and a plain loop.

    pip install torch==2.13.0 grain          # peers; without them their rows are left out
    python benchmarks/data_pipeline.py [--cases a b c d] [--workers 0 1 2] [--repeat 3]
    python benchmarks/data_pipeline.py --soak 10

a: pure Python work of about 1 ms a sample. b: NumPy work on images of 48x600. c: trivial work on images of 28x28 in
memory, with one processor; c0: with none. d: samples of 8 MB, nothing but transport. Each number is measured in a
process of its own, all loaders of a case in turn, `--repeat` times; the table shows the medians. Samples per second
count from the first batch on; its time is shown beside them, as are CPU seconds (with workers) and the peak of the
memory (of the process, and of its largest child).

The soak runs epochs of case b with two workers and prints the memory of all processes after each.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import resource
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pairs import run_apart

from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams, DataPipelineParams
from tfaip.data.generators.sequence import ArrayDataGenerator
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.data.pipeline.sampler import Position
from tfaip.data.specs import TensorSpec

MB = 10**6
Batches = Iterable[Any]


@dataclass(frozen=True)
class Case:
    """One kind of work.

    Args:
        samples: in one pass.
        batch: samples per batch.
        shape: of an image as it is read, uint8.
        work: what is done to an image; None: nothing.
        dtype: of what comes out.
        in_memory: whether all images lie in memory, as one array.
    """

    samples: int
    batch: int
    shape: tuple[int, ...]
    work: Callable[[np.ndarray], np.ndarray] | None
    dtype: str
    in_memory: bool = False

    def raw(self) -> np.ndarray:
        """All images in memory, or the few from which each process reads."""
        count = self.samples if self.in_memory else 4
        return np.random.default_rng(0).integers(0, 255, (count, *self.shape), dtype=np.uint8)


def python_work(image: np.ndarray) -> np.ndarray:
    """About a millisecond of pure Python."""
    value = int(image[0])
    for i in range(14_000):
        value = (value * 31 + i) % 65_521
    return np.full(1, value, np.float32)


def numpy_work(image: np.ndarray) -> np.ndarray:
    """Normalise, blur and bend an image, about a millisecond."""
    x = image.astype(np.float32) / np.float32(255)
    for _ in range(12):
        x = np.tanh((x - x.mean()) / (x.std() + np.float32(1e-6)))
        x[:, 1:-1] = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) / np.float32(3)
    return x


def trivial_work(image: np.ndarray) -> np.ndarray:
    """Nothing but another type."""
    return image.astype(np.float32)


CASES = {
    "a": Case(4_000, 16, (1,), python_work, "float32"),
    "b": Case(4_000, 16, (48, 600), numpy_work, "float32"),
    "c": Case(120_000, 16, (28, 28), trivial_work, "float32", in_memory=True),
    "c0": Case(120_000, 16, (28, 28), None, "float32", in_memory=True),
    "d": Case(1_600, 4, (8 * MB,), None, "uint8"),
}


class Source:
    """Random access to the images of a case, as grain and torch want it."""

    def __init__(self, case: str) -> None:
        self.case = CASES[case]
        self.images = self.case.raw()

    def __len__(self) -> int:
        return self.case.samples

    def __getitem__(self, index: Any) -> dict[str, np.ndarray]:
        image = self.images[int(index) % len(self.images)]
        return {"image": image if self.case.work is None else self.case.work(image)}


# Ours.


class ImageParams(DataGeneratorParams, cls=":Images"):
    """Which case."""

    case: str = "a"

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        return (ImagesInMemory if CASES[self.case].in_memory else Images)(mode, self)


class Images(DataGenerator[ImageParams]):
    """Images that are read one by one."""

    def __init__(self, mode: PipelineMode, params: ImageParams) -> None:
        super().__init__(mode, params)
        self._images = CASES[params.case].raw()

    def __len__(self) -> int:
        return CASES[self.params.case].samples

    def __getitem__(self, index: int) -> Sample:
        return Sample(inputs={"image": self._images[index % len(self._images)]})


class ImagesInMemory(ArrayDataGenerator[ImageParams]):
    """Images that lie in memory."""

    def load(self) -> Sample:
        return Sample(inputs={"image": CASES[self.params.case].raw()})


class WorkParams(DataProcessorParams, cls=":Work"):
    """Which case; without work the processor hands the sample on, so that workers have something to do."""

    case: str = "a"


class Work(MappingDataProcessor[WorkParams]):
    """The work of the case."""

    def apply(self, sample: Sample) -> Sample:
        work = CASES[self.params.case].work
        return sample if work is None else sample.new_inputs({"image": work(sample.inputs["image"])})


class ImageDataParams(DataBaseParams, cls=":ImageData"):
    """Which case."""

    case: str = "a"


class ImageData(DataBase[ImageDataParams]):
    """One image, no targets."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        case = CASES[self.params.case]
        return {"image": TensorSpec((1,) if case.work is python_work else case.shape, case.dtype)}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {}


def our_pipeline(case: str, workers: int) -> Any:
    """Return a training pipeline."""
    processors = [] if case == "c0" else [WorkParams(case=case)]
    data = ImageData(ImageDataParams(case=case, pre_proc=SequentialProcessorPipelineParams(processors=processors)))
    params = DataPipelineParams(batch_size=CASES[case].batch, num_processes=workers)
    return data.create_pipeline(params, ImageParams(case=case))


def ours(case: str, workers: int) -> Iterator[Any]:
    """Batches of one epoch."""
    with our_pipeline(case, workers).training_batches(Position(), CASES[case].samples) as batches:
        yield from batches


# Peers.


def plain_loop(case: str, workers: int) -> Iterator[Any]:
    """Read, work, stack."""
    source, size = Source(case), CASES[case].batch
    order = np.random.default_rng(0).permutation(len(source))
    for begin in range(0, len(order), size):
        yield np.stack([source[index]["image"] for index in order[begin : begin + size]])


def torch_loader(case: str, workers: int) -> Batches:
    """`torch.utils.data.DataLoader` with its default way to start workers."""
    import torch

    torch.set_num_threads(1)
    return torch.utils.data.DataLoader(Source(case), CASES[case].batch, shuffle=True, num_workers=workers)


def grain_loader(case: str, workers: int) -> Batches:
    """`grain.DataLoader`."""
    import grain
    from absl import flags

    flags.FLAGS.mark_as_parsed()  # grain reads its flags, which only an absl program has parsed
    source = Source(case)
    sampler = grain.samplers.IndexSampler(len(source), shuffle=True, seed=0, num_epochs=1)
    operations = [grain.transforms.Batch(CASES[case].batch)]
    return grain.DataLoader(data_source=source, sampler=sampler, operations=operations, worker_count=workers)


def tf_data(case: str, workers: int) -> Batches:
    """`tf.data` with `tf.py_function`; what lies in memory goes through `from_tensor_slices`."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf

    about = CASES[case]
    if about.in_memory:
        dataset = tf.data.Dataset.from_tensor_slices(about.raw()).shuffle(about.samples).batch(about.batch)
        return dataset.map(lambda images: tf.cast(images, tf.float32)).prefetch(2)
    source = Source(case)

    def read(index: Any) -> Any:
        return tf.py_function(lambda i: source[int(i)]["image"], [index], about.dtype)

    indices = tf.data.Dataset.range(about.samples).shuffle(about.samples)
    return indices.map(read, num_parallel_calls=max(workers, 1)).batch(about.batch).prefetch(2)


LOADERS: dict[str, tuple[Callable[[str, int], Batches], str | None]] = {
    "plain loop": (plain_loop, None),
    "tfaip": (ours, None),
    "grain": (grain_loader, "grain"),
    "torch": (torch_loader, "torch"),
    "tf.data": (tf_data, "tensorflow"),
}


def measure(case: str, loader: str, workers: int) -> dict[str, float]:
    """One pass in this process."""
    begin = time.perf_counter()
    batches = iter(LOADERS[loader][0](case, workers))
    next(batches)
    first = time.perf_counter()
    for _ in batches:
        pass
    seconds = time.perf_counter() - first
    del batches
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    about = CASES[case]
    return {
        "rate": (about.samples - about.batch) / seconds,
        "first_s": first - begin,
        "cpu_s": sum(u.ru_utime + u.ru_stime for u in usage),
        "memory_mb": usage[0].ru_maxrss * 1024 / MB,
        "child_mb": usage[1].ru_maxrss * 1024 / MB,
    }


def compare(case: str, worker_numbers: list[int], repeat: int) -> None:
    """Measure and print all loaders of a case."""
    variants = [("plain loop", 0)]
    for loader, (_, module) in list(LOADERS.items())[1:]:
        if module is not None and importlib.util.find_spec(module) is None:
            print(f"{loader}: not installed")
            continue
        variants += [(loader, workers) for workers in worker_numbers if not (case == "c0" and workers)]
    runs: dict[tuple[str, int], list[dict[str, float]]] = {variant: [] for variant in variants}
    for _ in range(repeat):
        for variant in variants:
            runs[variant].append(run_apart("--one", case, *variant))
    base = statistics.median(run["rate"] for run in runs[variants[0]])
    size_mb = np.prod(CASES[case].shape) * np.dtype(CASES[case].dtype).itemsize / MB
    print(f"\ncase {case}: {CASES[case].samples} samples, batches of {CASES[case].batch}")
    print("loader      workers  samples/s   GB/s  / plain loop  first batch  CPU s  memory MB  + per child")
    for (loader, workers), measured in runs.items():
        m = {name: statistics.median(run[name] for run in measured) for name in measured[0]}
        print(
            f"{loader:11} {workers:7d} {m['rate']:10,.0f} {m['rate'] * size_mb / 1000:6.2f} {m['rate'] / base:13.2f} "
            f"{m['first_s']:10.2f} s {m['cpu_s']:6.1f} {m['memory_mb']:10.0f} {m['child_mb']:12.0f}"
        )


def soak(epochs: int) -> None:
    """Epochs of case b with two workers, and the memory after each."""
    position = Position()
    with our_pipeline("b", 2) as pipeline:
        for epoch in range(1, epochs + 1):
            with pipeline.training_batches(position, CASES["b"].samples) as batches:
                ((_, position),) = deque(batches, maxlen=1)
            print(f"epoch {epoch:2d}: {_memory_mb():.1f} MB in the training process and its workers")


def _memory_mb() -> float:
    """Resident memory of this process and its children, shared pages counted once per process."""
    pages = 0
    for directory in Path("/proc").glob("[0-9]*"):
        # Any process may end while it is looked at.
        with contextlib.suppress(OSError):
            parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            if os.getpid() in (int(directory.name), parent):
                pages += int((directory / "statm").read_text().split()[1])
    return pages * resource.getpagesize() / MB


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--workers", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--soak", type=int, metavar="EPOCHS")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        case, loader, workers = args.one
        print(json.dumps(measure(case, loader, int(workers))))
    elif args.soak:
        soak(args.soak)
    else:
        for case in args.cases:
            compare(case, args.workers, args.repeat)


if __name__ == "__main__":
    main()
