"""The ready tests on real scenarios, and what they say about a broken one."""

import json
import unittest
from collections.abc import Callable, Iterator

import pytest

from test.support.tiny.scenario import TinyScenario
from test.testing.broken import BrokenScenario, CountedParams
from test.trainer.stages.scenarios import ConstructionScenario
from tfaip.model.weights import load_arrays, save_arrays
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.testing import ScenarioTests, SmallTraining, checks, small_trainer_params
from tfaip.trainer.stages.program import preview_stages
from tfaip.util.manifest import read_manifest, write_manifest


@pytest.mark.slow
class TestTutorial(ScenarioTests):
    """With pytest alone: an exported SavedModel, an evaluator, post-processing, values of LAV."""

    scenario = TutorialScenario
    flags = {  # noqa: RUF012
        "model.graph": "MLP",
        "model.graph.units": [8],
        "trainer.lav_every_n": 1,
        "scenario.export_keras": True,
    }

    def test_the_training_is_small(self) -> None:
        training = self.training()
        within = ["epoch_0000_step_000001", "epoch_0001_step_000001"]
        assert training.checkpoints() == sorted([*within, "epoch_0001", "epoch_0002"])
        history = training.history(training.run)
        assert 0 <= history[2, "lav_l0_worst_class_acc"] <= history[2, "lav_l0_eval_acc"]
        assert training is self.training()


FLAGS = {"train.batch_size": 4, "val.batch_size": 4}


class TinyCase(ScenarioTests, unittest.TestCase):
    """Collected as a `TestCase`."""

    scenario = TinyScenario
    flags = FLAGS


@pytest.mark.slow
@pytest.mark.backend
def test_unittest_runs_them_and_removes_the_run() -> None:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(TinyCase).run(result)
    assert (result.testsRun, result.errors, result.failures) == (6, [], [])
    ((_, skipped),) = result.skipped
    assert skipped.startswith("the training exports no format for other programs")
    assert vars(TinyCase)["_training"] is None


def test_stages_are_left_out_unless_they_are_asked_for() -> None:
    params = small_trainer_params(ConstructionScenario, FLAGS)
    assert [stage.name for stage in preview_stages(params, ConstructionScenario).stages] == ["main"]
    asked = {**FLAGS, "pretraining.max_epochs": 5, "trainer.epochs": 6}
    stages = preview_stages(small_trainer_params(ConstructionScenario, asked), ConstructionScenario).stages
    assert [stage.name for stage in stages] == [*(f"pretraining.{i}" for i in range(5)), "main"]


@pytest.fixture(scope="module")
def broken() -> Iterator[SmallTraining]:
    training = SmallTraining(small_trainer_params(BrokenScenario, FLAGS), BrokenScenario)
    yield training
    training.close()
    assert not training.run.parent.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            checks.check_resume,
            r"after a stop at epoch_0000_step_000001 and a resume \d+ of \d+ arrays differ: .*draw",
        ),
        (checks.check_lav, r"LAV with batches of 1 instead of 4 differs: .*mae is \S+ instead of .*mask it$"),
        (checks.check_warm_start, r"a warm start leaves 2 of 4 weights as they were: out/bias, out/kernel$"),
    ],
)
def test_what_differs_is_named(check: Callable[[SmallTraining], None], message: str, broken: SmallTraining) -> None:
    with pytest.raises(AssertionError, match=f"^{message}"):
        check(broken)


def test_a_training_that_changes_nothing(broken: SmallTraining) -> None:
    checks.check_training(broken)
    history = broken.run / "history.json"
    text = history.read_text()
    records = json.loads(text)
    records["2"]["values"]["mae"] = float("nan")
    history.write_text(json.dumps(records))
    with pytest.raises(
        AssertionError, match=r"^the training has values that are no finite numbers: mae of epoch 2 is nan$"
    ):
        checks.check_training(broken)
    history.write_text(text)
    broken.changed, changed = set(), broken.changed
    with pytest.raises(AssertionError, match=r"^the training has changed no weight"):
        checks.check_training(broken)
    broken.changed = changed
    assert changed == {"hidden/bias", "hidden/kernel", "out/bias", "out/kernel"}


def test_an_export_with_other_weights(broken: SmallTraining) -> None:
    checks.check_export(broken)
    model = broken.model()
    weights = load_arrays(model / "weights.safetensors")
    save_arrays(model / "weights.safetensors", {**weights, "out/bias": weights["out/bias"] + 1})
    manifest = read_manifest(model)
    write_manifest(model, {name: value for name, value in manifest.items() if name != "files"})
    with pytest.raises(AssertionError, match="^the exported model differs from its graph: "):
        checks.check_export(broken)


def test_params_that_change_when_they_are_read() -> None:
    params = small_trainer_params(BrokenScenario, FLAGS)
    checks.check_params(params, BrokenScenario)
    params.gen.train = CountedParams(samples=5)
    with pytest.raises(AssertionError, match=r"differ after they were stored and read: gen\.train\.samples: 6 -> 7"):
        checks.check_params(params, BrokenScenario)


def test_a_class_without_scenario() -> None:
    class TestNothing(ScenarioTests):
        pass

    with pytest.raises(TypeError, match="TestNothing tests no scenario: write scenario = MyScenario in its body"):
        TestNothing().test_params_can_be_stored()
