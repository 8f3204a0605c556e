"""A program that builds its own command line with paiargparse: prints what it has parsed, as JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field

if sys.argv[1] == "library first":
    import paiargparse  # noqa: F401

from tfaip.predict.params import PredictorParams
from tfaip.scenario.tutorial.full.scenario import TutorialScenario

if sys.argv[1] == "own parser":
    from tfaip.util.tfaipargparse import TFAIPArgumentParser as Parser
else:
    from paiargparse import PAIArgumentParser as Parser


@dataclass
class OwnParams:
    """Options of the program."""

    name: str = "a"
    count: int = field(default=3, metadata={"help": "How often"})


@dataclass
class PlanParams:
    """Options that hold params."""

    predict: PredictorParams = field(default_factory=PredictorParams)
    runs: dict[str, int] = field(default_factory=dict)


def main() -> None:
    parser = Parser(prog="own")
    parser.add_argument("--verbose", action="store_true")
    parser.add_root_argument("predict", PredictorParams)
    default = TutorialScenario.default_trainer_params()
    parser.add_root_argument("trainer", TutorialScenario.trainer_params_cls(), default=default)
    parser.add_root_argument("own", OwnParams)
    parser.add_root_argument("plan", PlanParams, ignore=["device", "pipeline"])
    args = parser.parse_args(sys.argv[2:])
    trainer = args.trainer
    parsed = {
        "verbose": args.verbose,
        "own": vars(args.own),
        "silent": args.predict.silent,
        "device": [args.predict.device.gpus, trainer.device.gpus, args.plan.predict.device.gpus],
        "batch_size": [args.predict.pipeline.batch_size, trainer.gen.setup.train.batch_size],
        "optimizer": [type(trainer.optimizer).__name__, trainer.optimizer.momentum],
        "units": trainer.scenario.model.graph.units,
        "runs": args.plan.runs,
        "backends": sorted({"keras", "tensorflow", "jax"} & set(sys.modules)),
        "types": [type(args.predict).__name__, type(trainer).__name__, type(args.own).__name__],
    }
    print(json.dumps(parsed))


if __name__ == "__main__":
    main()
