"""Schedules of values other than the learning rate; the params need no backend."""

from tfaip.trainer.schedules.targets import ScheduleParams

__all__ = ["ScheduleParams"]
