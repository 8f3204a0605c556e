"""Several models and their vote."""

from collections import Counter

from tfaip import Sample
from tfaip.predict.multimodelpredictor import MultiModelPredictor
from tfaip.predict.multimodelvoter import MultiModelVoter


class WordsVoter(MultiModelVoter):
    """The name that most models read; the votes by name."""

    def vote(self, sample: Sample) -> Sample:
        # One output per model, after its post-processing.
        votes = Counter(output["name"] for output in sample.outputs)
        winner = max(sorted(votes), key=lambda name: votes[name])
        return sample.new_outputs({"name": winner, "votes": dict(votes)})


class WordsMultiPredictor(MultiModelPredictor):
    def create_voter(self, data_params) -> MultiModelVoter:
        return WordsVoter()
