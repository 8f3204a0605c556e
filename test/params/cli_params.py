"""A small training, as scenarios declare them; its command lines, parsed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

import pytest

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option, pai_dataclass, pai_meta
from tfaip.params.commandline import ParamsParser
from tfaip.params.types import bound_field


class Mode(Enum):
    FAST = "fast"
    SLOW = "slow"


class RateParams(ParamsBase):
    """A learning rate."""

    lr: float = option(0.001, "Base learning rate")
    max_lr: float | None = None


class ConstantRateParams(RateParams): ...


class CosineRateParams(RateParams):
    """Falls like a cosine."""

    alpha: float = option(0.1, "Fraction at the end")


class OptimizerParams(ParamsBase):
    clip_norm: float | None = None
    weight_decay: float = 0.0


class AdamOptimizer(OptimizerParams):
    beta_1: float = 0.9


class SGDOptimizer(OptimizerParams):
    weight_decay: float = 0.5
    momentum: float = 0.0


class LayerParams(ParamsBase):
    units: int = 8


class DenseLayerParams(LayerParams):
    bias: bool = True


@pai_dataclass(alt="conv")
@dataclass
class ConvolutionLayerParams(LayerParams):
    kernel: int = 3


class GraphParams(ParamsBase):
    layers: list[LayerParams] = field(default_factory=lambda: [DenseLayerParams(units=4)])
    heads: dict[str, LayerParams] = field(default_factory=dict)


class MLPGraphParams(GraphParams): ...


class CNNGraphParams(GraphParams):
    pool: int = 2


class DataParams(ParamsBase):
    size: tuple[int, int] = (28, 28)
    augment: bool = False


class PipelineParams(ParamsBase):
    batch_size: int = 16


class SetupParams(ParamsBase):
    train: PipelineParams = field(default_factory=PipelineParams, metadata=pai_meta(fix_dc=True, mode="ssnake"))
    val: PipelineParams = field(default_factory=PipelineParams, metadata=pai_meta(fix_dc=True, mode="ssnake"))


class GeneratorParams(ParamsBase): ...


class ListsGeneratorParams(GeneratorParams):
    lists: list[str] = option([], nargs="+")


class CountedListsGeneratorParams(ListsGeneratorParams):
    count: int = 10


TGen = TypeVar("TGen", bound=GeneratorParams)


class GenParams(ParamsBase, Generic[TGen]):
    setup: SetupParams = option(SetupParams(), fix_dc=True, mode="ssnake")
    train: TGen = bound_field(pai_meta(mode="ssnake"))


class ListsGenParams(GenParams[ListsGeneratorParams]): ...


class RangeParams(ParamsBase):
    low: float = 0.0
    high: float = 1.0


class RunParams(ParamsBase):
    """Everything about a run."""

    output_dir: str | None = option(None, "Where results go", required=True)
    epochs: int = option(100, "Number of epochs")
    overwrite: bool = option(False, mode="flat")
    mode: Mode = Mode.FAST
    gpus: list[int] = []
    weights: dict[str, float] = {}
    points: dict[float, float] = {}
    names: set[str] = set()
    either: int | str = 1
    anything: Any = None
    size: str = field(default="s", metadata=pai_meta(choices=["s", "m", "l"]))
    grid: list[list[int]] = []
    secret: int = option(3, mode="ignore")
    doubled: int = 0
    span: RangeParams = option(RangeParams(), fix_dc=True)
    slashed: RangeParams = option(RangeParams(), separator="/", fix_dc=True)
    optimizer: OptimizerParams = option(AdamOptimizer(), mode="ssnake", choices=[AdamOptimizer, SGDOptimizer])
    learning_rate: RateParams = option(CosineRateParams(), "Schedule", mode="ssnake")
    graph: GraphParams = option(MLPGraphParams(), choices=[MLPGraphParams, CNNGraphParams], enforce_choices=True)
    backup: OptimizerParams | None = None
    data: DataParams = option(DataParams(), mode="ssnake", fix_dc=True)
    gen: ListsGenParams = option(ListsGenParams(), mode="ssnake", fix_dc=True)

    def __post_init__(self) -> None:
        if self.epochs < 0:
            raise ValueError(f"epochs is {self.epochs}, expected at least 0: change --run.epochs")
        self.doubled = 2 * self.epochs
        self.gen.setup.val.batch_size = self.gen.setup.train.batch_size


class PromptedParams(ParamsBase):
    """Fields that must be given hold an empty value until then."""

    text: str = option("", required=True)
    words: list[str] = option([], required=True)


def make_parser(default: RunParams | None = None) -> ParamsParser:
    parser = ParamsParser("tfaip-test", "Tests flags.")
    parser.add_option("--dry_run", help="Do nothing")
    parser.add_option("--limit", type=int, default=3)
    parser.add_option("--dirs", type=list[str])
    parser.add_params("run", RunParams, default=default)
    return parser


def parser_of(cls: type, default: Any = None, **metadata: Any) -> ParamsParser:
    parser = ParamsParser("x")
    parser.add_params("p", cls, default=default, metadata=metadata)
    return parser


def parse(line: str, default: RunParams | None = None) -> Any:
    return make_parser(default).parse(["--run.output_dir", "out", *line.split()]).run


def failure(line: str) -> str:
    with pytest.raises(UsageError) as error:
        parse(line)
    assert "\n" not in str(error.value)
    return str(error.value)
