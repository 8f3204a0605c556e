"""Params classes for the tests of the command line: a small training, as scenarios declare them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic, TypeVar

from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.types import bound_field


class Mode(Enum):
    FAST = "fast"
    SLOW = "slow"


class RateParams(ParamsBase):
    """A learning rate."""

    lr: float = field(default=0.001, metadata=pai_meta(help="Base learning rate"))
    max_lr: float | None = None


class ConstantRateParams(RateParams):
    pass


class CosineRateParams(RateParams):
    """Falls like a cosine."""

    alpha: float = field(default=0.1, metadata=pai_meta(help="Fraction at the end"))


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


class MLPGraphParams(GraphParams):
    pass


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


class GeneratorParams(ParamsBase):
    pass


class ListsGeneratorParams(GeneratorParams):
    lists: list[str] = field(default_factory=list, metadata=pai_meta(nargs="+"))


class CountedListsGeneratorParams(ListsGeneratorParams):
    count: int = 10


TGen = TypeVar("TGen", bound=GeneratorParams)


class GenParams(ParamsBase, Generic[TGen]):
    setup: SetupParams = field(default_factory=SetupParams, metadata=pai_meta(fix_dc=True, mode="ssnake"))
    train: TGen = bound_field(pai_meta(mode="ssnake"))


class ListsGenParams(GenParams[ListsGeneratorParams]):
    pass


class RangeParams(ParamsBase):
    low: float = 0.0
    high: float = 1.0


class RunParams(ParamsBase):
    """Everything about a run."""

    output_dir: str | None = field(default=None, metadata=pai_meta(required=True, help="Where results go"))
    epochs: int = field(default=100, metadata=pai_meta(help="Number of epochs"))
    overwrite: bool = field(default=False, metadata=pai_meta(mode="flat"))
    mode: Mode = Mode.FAST
    gpus: list[int] = field(default_factory=list)
    weights: dict[str, float] = field(default_factory=dict)
    points: dict[float, float] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    either: int | str = 1
    anything: Any = None
    size: str = field(default="s", metadata=pai_meta(choices=["s", "m", "l"]))
    grid: list[list[int]] = field(default_factory=list)
    secret: int = field(default=3, metadata=pai_meta(mode="ignore"))
    doubled: int = 0
    span: RangeParams = field(default_factory=RangeParams, metadata=pai_meta(fix_dc=True))
    slashed: RangeParams = field(default_factory=RangeParams, metadata=pai_meta(separator="/", fix_dc=True))
    optimizer: OptimizerParams = field(
        default_factory=AdamOptimizer, metadata=pai_meta(mode="ssnake", choices=[AdamOptimizer, SGDOptimizer])
    )
    learning_rate: RateParams = field(
        default_factory=CosineRateParams, metadata=pai_meta(mode="ssnake", help="Schedule")
    )
    graph: GraphParams = field(
        default_factory=MLPGraphParams,
        metadata=pai_meta(choices=[MLPGraphParams, CNNGraphParams], enforce_choices=True),
    )
    backup: OptimizerParams | None = None
    data: DataParams = field(default_factory=DataParams, metadata=pai_meta(mode="ssnake", fix_dc=True))
    gen: ListsGenParams = field(default_factory=ListsGenParams, metadata=pai_meta(mode="ssnake", fix_dc=True))

    def __post_init__(self) -> None:
        if self.epochs < 0:
            raise ValueError(f"epochs is {self.epochs}, expected at least 0: change --run.epochs")
        self.doubled = 2 * self.epochs
        self.gen.setup.val.batch_size = self.gen.setup.train.batch_size
