"""Scenario base for training, validation and LAV data that are named by list files."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic

from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.params import pai_meta
from tfaip.params.types import bound_field
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.params import TrainerParams, TrainerPipelineParamsBase

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TP = TypeVar("TP", default=Any)
else:
    from typing import TypeVar

    TP = TypeVar("TP")

TLists = TypeVar("TLists", bound=ListsFileGeneratorParams)
SP = TypeVar("SP", bound=ScenarioBaseParams)


class ListFilePipelineParams(TrainerPipelineParamsBase[TLists, TLists], Generic[TLists]):
    """List files for training, validation and LAV: `--train.lists`, `--val.lists`, `--lav.lists`."""

    train: TLists = bound_field(pai_meta(fix_dc=True, mode="ssnake", help="Lists of the training data"))
    val: TLists = bound_field(
        pai_meta(fix_dc=True, mode="ssnake", help="Lists of the validation data; none: no validation")
    )
    lav: TLists = bound_field(
        pai_meta(fix_dc=True, mode="ssnake", help="Lists to load and validate on, each separately; none: those of val")
    )

    def train_gen(self) -> TLists:
        return self.train

    def val_gen(self) -> TLists | None:
        return self.val if self.val.lists else None

    def lav_gen(self) -> Iterable[TLists]:
        """Return a generator per list, so each list has its own values: `lav_l0`, `lav_l1` ..."""
        generator = self.lav if self.lav.lists else self.val
        generators = []
        for name in generator.lists:
            one = copy.copy(generator)
            one.lists = [name]
            one.list_ratios = None  # they say how a training mixes its lists
            generators.append(one)
        return generators


class ListFileTrainerParams(TrainerParams[SP, ListFilePipelineParams[ListsFileGeneratorParams]], Generic[SP]):
    """Trainer params with plain list files; processors load what a line names."""


class PlainListsPipelineParams(ListFilePipelineParams[ListsFileGeneratorParams]):
    """Plain list files; processors load what a line names."""


class ListFileScenario(ScenarioBase[SP, TP], Generic[SP, TP]):
    """Base of scenarios with list files: `class MyScenario(ListFileScenario[MyParams])`.

    If a generator of your own (a subclass of `ListsFileGenerator`) loads what a line names, declare
    `class MyPipelineParams(ListFilePipelineParams[MyListsParams])`, and give it as the second type
    argument. Trainer params are accepted there too: `ListFileTrainerParams[MyParams]`, or
    `TrainerParams[MyParams, MyPipelineParams]`, as a class of its own.
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, arguments: Any) -> Any:
            # The second argument may be left out, as the default of the type parameter says.
            if cls is ListFileScenario and not isinstance(arguments, tuple):
                arguments = (arguments, PlainListsPipelineParams)
            return super().__class_getitem__(arguments)
