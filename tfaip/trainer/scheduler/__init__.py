"""Learning rates: params and rules in one, without a backend; `scheduledrate` computes that of an update."""

from typing import TYPE_CHECKING

from tfaip.trainer.scheduler.feedback import *  # noqa: F403
from tfaip.trainer.scheduler.rules import *  # noqa: F403
from tfaip.util.oldnames import old_names

SCHEDULES = [*RULES, *FEEDBACK, FunctionParams]  # noqa: F405

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
