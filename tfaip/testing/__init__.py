"""Ready tests of a scenario: `from tfaip.testing import ScenarioTests`. Importing it loads no backend."""

from tfaip.testing.scenariotests import ScenarioTests
from tfaip.testing.training import SmallTraining, small_trainer_params

__all__ = ["ScenarioTests", "SmallTraining", "small_trainer_params"]
