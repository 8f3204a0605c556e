"""Evaluator of the sums."""

from test.clients.sums.params import SumsEvaluatorParams
from tfaip.evaluator.evaluator import EvaluatorBase


class SumsEvaluator(EvaluatorBase[SumsEvaluatorParams]):
    def __init__(self, params: SumsEvaluatorParams):
        super(SumsEvaluator, self).__init__(params)
        self.errors = []

    def __enter__(self):
        self.errors = []
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        del self.errors

    def update_state(self, sample):
        self.errors.append(abs(sample.outputs["sum"][0] - sample.targets["sum"][0]))

    def result(self):
        right = [error <= self.params.tolerance for error in self.errors]
        return {"right": sum(right) / len(right)}
