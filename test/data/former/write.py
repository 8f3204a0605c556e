"""Write `run.tar.xz`: a run and its models by tfaip 1.2, with the outputs and scores that it computes itself.

Needs tfaip 1.2 in an environment of its own; on TensorFlow 2.15 (Python 3.11) its published fork:

    pip install "tensorflow==2.15.1" "ocrd-fork-tfaip==1.2.7" "setuptools<80"
    python test/data/former/write.py

It trains the scenario in `test/support/former`, which is copied so that no other tfaip can be imported. The tests read
the stored archive and never run this script.
"""

import json
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parents[1] / "support" / "former"


def write_defaults():
    """Write the default params of the classes that files of 1.2 may name, as 1.2 stores them."""
    import tfaip.scenario.listfile.params

    import tfaip.data.databaseparams
    import tfaip.data.pipeline.processor.params
    import tfaip.trainer.optimizer
    import tfaip.trainer.scheduler
    from tfaip import DeviceConfigParams, LAVParams, LearningRateParams, PredictorParams, WarmStartParams
    from tfaip.trainer.optimizer.optimizers import OptimizerParams

    pipeline = tfaip.data.pipeline.processor.params
    classes = [DeviceConfigParams, LAVParams, PredictorParams, WarmStartParams]
    classes += [tfaip.data.databaseparams.DataPipelineParams, tfaip.scenario.listfile.params.ListsFileGeneratorParams]
    classes += [pipeline.SequentialProcessorPipelineParams, pipeline.ComposedProcessorPipelineParams]
    for base in (LearningRateParams, OptimizerParams):
        classes += leaves(base)
    stored = [cls().to_dict() for cls in classes]
    (HERE / "defaults.json").write_text(json.dumps(stored, indent=1) + "\n")


def leaves(base):
    """Return all classes that derive from a base."""
    return [cls for child in base.__subclasses__() for cls in [child, *leaves(child)]]


def main(directory):
    """Train, predict and evaluate in a directory."""
    package = directory / "test" / "support" / "former"
    shutil.copytree(SUPPORT, package, ignore=shutil.ignore_patterns("__pycache__"))
    for parent in (package.parent, package.parent.parent):
        (parent / "__init__.py").touch()
    sys.path.insert(0, str(directory))
    os.chdir(directory)

    from test.support.former.scenario import WaveGeneratorParams, WaveScenario
    from tfaip import LAVParams, PredictorParams

    params = WaveScenario.default_trainer_params()
    params.output_dir = str(directory / "run")
    params.random_seed = 1
    params.lav_every_n = 1
    # Values that do not fit the annotations: 1.2 trained with them.
    params.scenario.model.window = (4, 1.0, 0.5)
    params.scenario.model.limit = None
    WaveScenario.create_trainer(params).train()

    write_defaults()
    expected = {}
    for name in ("best", "export"):
        path = directory / "run" / name
        predictor = WaveScenario.create_predictor(str(path), PredictorParams(silent=True))
        samples = list(predictor.predict(WaveGeneratorParams(size=8, seed=2)))
        expected[name] = [
            {
                "prob": [float(value) for value in sample.outputs["prob"]],
                "logits": [float(value) for value in sample.outputs["logits"]],
                "name": sample.outputs["name"],
                "index": sample.meta["index"],
            }
            for sample in samples
        ]
    lav = WaveScenario.create_lav(
        LAVParams(model_path=str(directory / "run" / "export")),
        WaveScenario.params_from_path(str(directory / "run" / "export")),
    )
    (result,) = lav.run([WaveGeneratorParams(size=8, seed=2)])
    expected["lav"] = {name: float(result[name]) for name in ("acc", "named")}
    (directory / "run" / "expected.json").write_text(json.dumps(expected, indent=1))

    # Event files are not read, and paths of this machine say nothing to others.
    for kind in ("train", "validation", "lav_l0", "train.log"):
        shutil.rmtree(directory / "run" / kind, ignore_errors=True)
    for file in (directory / "run").rglob("*.json"):
        file.write_text(file.read_text().replace(str(directory), "/home/user"))
    with tarfile.open(HERE / "run.tar.xz", "w:xz", preset=9) as archive:
        archive.add(directory / "run", "run")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
