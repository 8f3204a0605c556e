"""Generators: the sources of samples."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Generic, TypeVar

from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option
from tfaip.params.classes import Part
from tfaip.params.fields import FieldAdvice, FieldError, check_fields
from tfaip.util.classes import check_hook_names
from tfaip.util.text import shorten, shorten_text


class DataGeneratorParams(ParamsBase):
    """Source of samples. A subclass names its generator in `cls` and adds what that needs."""

    @staticmethod
    def cls() -> type[DataGenerator[Any]]:
        """Return the `DataGenerator` subclass that these params describe."""
        raise NotImplementedError("override cls() of the generator params and return your DataGenerator subclass")

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        """Build the generator for a pipeline of this mode."""
        return self.cls()(mode=mode, params=self)


P = TypeVar("P", bound=DataGeneratorParams)
T = TypeVar("T")
_HOOKS = (
    *("__len__", "__getitem__", "get_batch", "generate", "shuffle"),
    *("yields_batches", "in_memory", "has_random_access"),
)


class DataGenerator(Generic[P]):
    """Source of the samples of one pass over the data.

    Override `generate`, and `__len__` where the number is known. A generator that also has
    `__getitem__(index) -> Sample` (and so a length) offers *random access*: training data is then
    shuffled as a whole and resuming costs nothing. One whose samples are rows of arrays can also
    have `get_batch(indices) -> Sample` (`indices` of shape `[n]`): one sample whose arrays have the leading
    dimension n, and a list or None as meta. Its rows must equal `self[i]` for each index.

    Args:
        mode: purpose of the pipeline.
        params: the params of the generator.
    """

    shuffle: bool = True
    """False, in the class or set by its constructor: a training reads the samples in their own order."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_hook_names(cls, DataGenerator, _HOOKS, needed={"__getitem__": ["generate"]})

    def __init__(self, mode: PipelineMode, params: P) -> None:
        self.mode = PipelineMode(mode)
        self.params = params

    def __len__(self) -> int:
        """Return the number of samples of one pass. Override it if the number is known."""
        raise TypeError(f"the number of samples of {type(self).__name__} is not known")

    def __bool__(self) -> bool:
        return True  # otherwise bool() would call __len__

    def generate(self) -> Iterable[Sample]:
        """Return the samples of one pass, always in the same order. Default: by random access."""
        if not self.has_random_access():
            raise NotImplementedError(f"override generate (or __len__ and __getitem__) in {type(self).__name__}")
        get: Any = self
        return (get[index] for index in range(len(self)))

    def has_random_access(self) -> bool:
        """Return True if `self[index]` may be called. Override it if that depends on the params."""
        return hasattr(self, "__getitem__")

    def yields_batches(self) -> bool:
        """Return True if each sample is already a batch: a list of samples, or a stacked sample.

        The samples of a list are processed one by one, then padded and stacked to a batch of this
        size; generating processors refuse them. A stacked sample has arrays with the batch dimension,
        and a list or None as `meta`. It runs through the processors as one sample and is neither
        batched nor padded again; do not write into its arrays later: they may still be waiting for the
        training. `limit`, `__len__` and the size of an epoch then count batches.
        """
        return False

    def in_memory(self) -> bool:
        """Return True if the samples are already in the memory of this process.

        Worker processes are then sent the samples that they process, instead of building a
        generator of their own and reading from it.
        """
        return False


class Generator(Part, DataGeneratorParams, DataGenerator[Any]):
    """Source of samples, params and code in one class: its annotated fields are its params.

        class Squares(Generator):
            size: int = 100

            def __len__(self) -> int:
                return self.size

            def __getitem__(self, index: int) -> Sample:
                return Sample(inputs={"x": [index]}, targets={"y": [index**2]})

    What to override is described in `DataGenerator`, the rules of such classes in `Part`. `self.mode`
    is the purpose of the pipeline.
    """

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        cls: Any = self.cls()
        return self._create(mode=PipelineMode(mode), params=self) if cls is type(self) else cls(mode=mode, params=self)


class RawDataGeneratorParams(DataGeneratorParams, cls=":RawDataGenerator"):
    """Samples that exist already; for Python only, not for the command line."""

    samples: Iterable[Sample] = option([], "Samples in memory", mode="ignore")

    def create(self, mode: PipelineMode) -> DataGenerator[Any]:
        return RawDataGenerator(None, mode, self)


class RawDataGenerator(DataGenerator[Any]):
    """Generator over samples that exist already, with random access if they have a length and an index.

    Args:
        samples: the samples; None: those of `params`.
        mode: purpose of the pipeline.
        params: params of any class; None: `RawDataGeneratorParams` of the samples.
    """

    def __init__(
        self,
        samples: Iterable[Sample] | None = None,
        mode: PipelineMode = PipelineMode.TRAINING,
        params: DataGeneratorParams | None = None,
    ) -> None:
        super().__init__(mode, RawDataGeneratorParams(samples or []) if params is None else params)
        self._samples: Any = self.params.samples if samples is None else samples

    def __len__(self) -> int:
        return len(self._samples) if self.has_random_access() else super().__len__()

    def __getitem__(self, index: int) -> Sample:
        sample: Sample = self._samples[index]
        return sample

    def generate(self) -> Iterable[Sample]:
        samples: Iterable[Sample] = self._samples
        return super().generate() if self.has_random_access() else samples

    def has_random_access(self) -> bool:
        return hasattr(self._samples, "__len__") and hasattr(self._samples, "__getitem__")

    def in_memory(self) -> bool:
        return True


def unreadable_file(kind: str, path: str | Path, error: Exception, name: str | None = None) -> UsageError:
    """Return the error of a file that cannot be read, with the reason.

    Args:
        kind: of file, e.g. `CSV`.
        name: of the field of the generator that names the file; None: no field does.
    """
    reason: object = error
    if isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    if isinstance(error, FileNotFoundError) and not Path(path).is_absolute():
        reason = f"{reason} in {Path.cwd()}, where a relative path begins"
    text = f"cannot read the {kind} file {shorten_text(str(path), 150)}: {shorten_text(str(reason), 200)}"
    return UsageError(text) if name is None else FieldAdvice(f"{text}; change {{{name}}}", name)


MAX_SAMPLES = 10**9  # their order takes 8 bytes each


class Joined:
    """Sources in a row: `joined[index]` is the source that has a sample, and the index of the sample in it.

    Args:
        sizes: the number of samples of each; None: its length.
    """

    def __init__(self, sources: Sequence[Any], sizes: Iterable[int] | None = None) -> None:
        self._sources = sources
        self._ends = list(accumulate(map(len, sources) if sizes is None else sizes))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> tuple[Any, int]:
        number = bisect_right(self._ends, index)
        return self._sources[number], index - (self._ends[number - 1] if number else 0)


def open_files(open_file: Callable[[str], T], kind: str, params: Any, mode: PipelineMode, name: str) -> list[T]:
    """Return the opened files that a field of the generator names.

    Args:
        open_file: opens a file, and raises any error.
        kind: of the files, for messages, e.g. `CSV`.
        params: have the field.
    """
    paths = getattr(params, name)
    if not paths:
        raise FieldAdvice(f"no {kind} file is given for the {mode}: name at least one in {{{name}}}", name)
    files = []
    for path in paths:
        try:
            files.append(open_file(path))
        except UsageError:
            raise
        except Exception as error:  # the libraries raise errors of many classes
            raise unreadable_file(kind, path, error, name) from error
    return files


def check_ratios(params: Any, name: str, count: int) -> None:
    """Raise unless a field has a number for each of `count` sources."""
    check_fields(params)  # they may have been set after the constructor
    ratios = getattr(params, name)
    if len(ratios) != count:
        raise FieldError(name, ratios, f"one number for each of the {count} sources")


def scaled_sizes(sizes: list[int], ratios: list[float]) -> list[int]:
    """Return sizes in proportion to the ratios, none reduced: 10 and 100 at 1:2 give 50 and 100.

    Raises:
        UsageError: if these are more samples than memory has room for their order.
    """
    unit = max(size / ratio for size, ratio in zip(sizes, ratios, strict=True))
    if not unit * sum(ratios) <= MAX_SAMPLES:
        raise UsageError(f"a pass with the ratios {shorten(ratios)} has more than {MAX_SAMPLES:,} samples")
    return [max(size, round(unit * ratio)) for size, ratio in zip(sizes, ratios, strict=True)]


def require_columns(params: Any, mode: PipelineMode, found: Iterable[Any], table: str) -> None:
    """Raise unless a table has the columns that params name; for a prediction those of the targets may be missing.

    Args:
        params: name the columns, `input_columns` and `target_columns`.
        found: the columns of the table.
    """
    found = list(found)
    needed = params.input_columns if mode is PipelineMode.PREDICTION else columns_of(params)
    if missing := [name for name in dict.fromkeys(needed) if name not in found]:
        shown = shorten_text(", ".join(map(repr, found)) or "nothing", 120)
        raise UsageError(f"{table} has no column {shorten_text(', '.join(missing), 80)}: it has {shown}")


def columns_of(params: Any) -> list[str]:
    """Return the names of all columns that params name, each once."""
    return list(dict.fromkeys([*params.input_columns, *params.target_columns]))


def sample_of(values: Mapping[str, Any], params: Any, mode: PipelineMode, meta: Any = None) -> Sample:
    """Return the sample of a row; for a prediction without the columns of the targets these are None.

    Args:
        values: of the row, by column.
        params: as in `require_columns`.
    """
    has_targets = all(name in values for name in params.target_columns)
    is_unlabelled = mode is PipelineMode.PREDICTION and not (has_targets and params.target_columns)
    targets = None if is_unlabelled else {name: values[name] for name in params.target_columns}
    return Sample(inputs={name: values[name] for name in params.input_columns}, targets=targets, meta=meta)
