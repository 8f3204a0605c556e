"""Loggers: copies of the values of each epoch for tracking services, see `tfaip.trainer.loggers.logger`."""

from tfaip.trainer.loggers.logger import LoggedRun, Logger, LoggerParams, RunStatus, permitted_loggers
from tfaip.trainer.loggers.mlflowlogger import MLflowLoggerParams
from tfaip.trainer.loggers.wandblogger import WandBLoggerParams

LOGGERS: list[type] = [MLflowLoggerParams, WandBLoggerParams]

__all__ = [
    "LOGGERS",
    "LoggedRun",
    "Logger",
    "LoggerParams",
    "MLflowLoggerParams",
    "RunStatus",
    "WandBLoggerParams",
    "permitted_loggers",
]
