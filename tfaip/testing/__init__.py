"""Ready tests of a scenario, for pytest and unittest: `from tfaip.testing import ScenarioTests`; loads no backend."""

from collections.abc import Mapping
from typing import Any, ClassVar

from tfaip.testing import checks
from tfaip.testing.checks import SmallTraining, small_trainer_params

__all__ = ["ScenarioTests", "SmallTraining", "small_trainer_params"]


class ScenarioTests:
    """Tests that every scenario should pass; they share one small training.

        class TestLines(ScenarioTests):  # with unittest: class TestLines(ScenarioTests, TestCase)
            scenario = LineScenario
            flags = {"train.size": 40, "model.units": [8]}

    The training has two epochs of two updates each, see `small_trainer_params`; choose flags with which it takes
    seconds. It runs on the backend that is active, in a temporary directory that is removed after the last test.
    """

    scenario: ClassVar[Any] = None
    """Class of the scenario."""
    flags: ClassVar[Mapping[str, Any]] = {}
    """Values of flags of the training, as in `TrainerParams.set_flags`."""
    tolerance: ClassVar[float] = 1e-4
    """Relative difference that values may have where the order of the computation differs."""

    _training: ClassVar[SmallTraining | None] = None

    @classmethod
    def trainer_params(cls) -> Any:
        """Return the trainer params of the small training; override it for what flags cannot say."""
        if cls.scenario is None:
            raise TypeError(f"{cls.__qualname__} tests no scenario: write scenario = MyScenario in its body")
        return small_trainer_params(cls.scenario, cls.flags)

    @classmethod
    def training(cls) -> SmallTraining:
        """Return the small training, which runs when it is first needed.

        Raises:
            Exception: the error of the training.
        """
        # Of this class: a subclass with other flags has its own.
        training = vars(cls).get("_training")
        if training is None:
            training = cls._training = SmallTraining(cls.trainer_params(), cls.scenario)
        return training

    @classmethod
    def teardown_class(cls) -> None:
        """Remove what the training wrote; pytest calls it."""
        if vars(cls).get("_training") is not None:
            cls.training().close()
        cls._training = None

    @classmethod
    def tearDownClass(cls) -> None:  # noqa: N802 (unittest calls it)
        """Remove what the training wrote; unittest calls it."""
        cls.teardown_class()

    def test_params_can_be_stored(self) -> None:
        """The params of the training are the same after they were written as JSON and read again."""
        checks.check_params(self.trainer_params(), self.scenario)

    def test_training(self) -> None:
        """The training changes weights, and all of its values are finite numbers."""
        checks.check_training(self.training())

    def test_resuming_changes_nothing(self) -> None:
        """A training that was stopped within an epoch and resumed ends in the same state, bit for bit."""
        checks.check_resume(self.training())

    def test_lav_does_not_depend_on_the_batch_size(self) -> None:
        """LAV gives the same values with batches of one sample, which have no padding."""
        checks.check_lav(self.training(), self.tolerance)

    def test_warm_start_loads_all_weights(self) -> None:
        """A warm start from the exported model gives a new model all of its weights."""
        checks.check_warm_start(self.training())

    def test_exported_model_predicts_the_same(self) -> None:
        """All exported formats give the outputs of the graph."""
        checks.check_export(self.training(), self.tolerance)
