"""Evaluator of the words."""

from tfaip import Sample
from tfaip.evaluator.evaluator import Evaluator


class WordsEvaluator(Evaluator):
    def __init__(self, codec, **kwargs):
        super(WordsEvaluator, self).__init__(**kwargs)
        self.codec = codec
        self.right = 0
        self.total = 0

    def __enter__(self):
        self.right = 0
        self.total = 0
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        pass

    def update_state(self, sample: Sample):
        self.total += 1
        self.right += sample.outputs["name"] == self.codec[int(sample.targets["label"][0])]

    def result(self):
        return {"eval_acc": self.right / self.total, "total": self.total}
