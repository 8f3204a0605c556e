"""Vote of several models on the text of a line."""

from lines.scenario import LineData, edit_distance
from tfaip.imports import MultiModelPredictor, MultiModelVoter, Sample


class MiddleVoter(MultiModelVoter[LineData]):
    """Chooses the text that is nearest to those of all models; with three of them the one that two agree on."""

    def vote(self, sample: Sample) -> Sample:
        texts = [outputs["text"] for outputs in sample.outputs]
        distances = [sum(edit_distance(text, other) for other in texts) for text in texts]
        return sample.new_outputs({"text": texts[distances.index(min(distances))]}).new_meta(sample.meta[0])


class WrittenPredictor(MultiModelPredictor):
    """Applies several models, which vote."""

    def create_voter(self, data_params: LineData) -> MiddleVoter:
        return MiddleVoter(data_params)
