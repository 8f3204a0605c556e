"""Several models: votes, and what keeps models from voting."""

import json
import shutil

import ml_dtypes
import numpy as np
import pytest

from test.lav.test_lav_in_training import HalveParams
from test.predict.test_predictor import data_with, points, predictor_of
from test.support.tiny.scenario import TinyGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor
from tfaip.errors import TfaipError, UsageError
from tfaip.lav.lav import VOTED
from tfaip.predict.multimodelpredictor import MultiModelPredictor
from tfaip.predict.multimodelvoter import MeanVoter, MultiModelVoter, stacked
from tfaip.predict.params import LAVParams, PredictorParams
from tfaip.scenario.tutorial.full.data import Part, TutorialData, TutorialGenerator
from tfaip.scenario.tutorial.full.scenario import TutorialScenario


def voted(*outputs):
    return MeanVoter(TutorialData()).vote(Sample(outputs=list(outputs), meta=1)).outputs


def test_means_and_majorities():
    result = voted(
        {"p": np.array([0.0, 1.0], np.float32), "c": np.array([1, 5, 7]), "t": np.bool_(True)},
        {"p": np.array([0.5, 0.0], np.float32), "c": np.array([2, 5, 8]), "t": np.bool_(False)},
        {"p": np.array([1.0, 0.5], np.float32), "c": np.array([2, 6, 9]), "t": np.bool_(True)},
    )
    np.testing.assert_array_equal(result["p"], np.array([0.5, 0.5], np.float32))
    np.testing.assert_array_equal(result["c"], [2, 5, 7])  # all differ: the first one's
    assert bool(result["t"]) is True
    assert (result["p"].dtype, result["c"].dtype, result["t"].dtype) == (np.float32, np.int64, np.bool_)
    # Means of half precision are taken in single: the sum of both is beyond float16.
    assert voted(*({"p": np.asarray([value], ml_dtypes.bfloat16)} for value in (1, 2, 6)))["p"] == [3]
    assert voted(*[{"p": np.float16(60000)}] * 2)["p"] == np.float16(60000)


def test_votes_have_one_shape():
    np.testing.assert_array_equal(stacked("labels", [[1, 2], np.array([3, 4])], "x"), [[1, 2], [3, 4]])
    message = r"give output 'p' in different shapes \(\[2\], \[3\]\): pad them in a MultiModelVoter"
    with pytest.raises(TfaipError, match=f"the models {message}"):
        voted({"p": np.zeros(2)}, {"p": np.zeros(3)})


class Highest(MultiModelVoter):
    """The highest output of the models; the end notes how many models there were."""

    post_processed = False

    def vote(self, sample):
        self.models = len(sample.outputs)
        return sample.new_outputs({"y": max(one["y"] for one in sample.outputs)})

    def finalize_sample(self, sample):
        return sample.new_meta({"id": sample.meta, "models": self.models})


def predictor_with(voter):
    """A class of predictors with this voter."""
    return type("Own", (MultiModelPredictor,), {"create_voter": lambda self, data_params: voter(data_params)})


def test_a_voter_of_ones_own_votes_before_the_post_processing():
    predictor = predictor_with(Highest)(PredictorParams(silent=True), data_with(post=[HalveParams()]))
    predictor.set_models(
        [lambda b: {"y": b["x"][:, :1]}, lambda b: {"y": b["x"][:, 1:2]}, lambda b: {"y": b["x"][:, 2:3]}]
    )
    samples = list(predictor.predict_raw([Sample(inputs={"x": x}, meta=i) for i, x in enumerate(points(20))]))
    np.testing.assert_array_equal([s.outputs["y"][0] for s in samples], points(20)[:, :3].max(axis=1) / 2)
    assert [s.meta for s in samples] == [{"id": i, "models": 3} for i in range(20)]
    assert predictor.benchmark_results.samples == 20
    assert predictor.raw()(Sample(inputs={"x": points(1)[0]}, meta="one")).meta == {"id": "one", "models": 3}


class Named(MultiModelVoter):
    """Votes on what the post-processing made; created as in tfaip 1.2."""

    def vote(self, sample):
        return sample.new_outputs({"all": [float(one["y"][0]) for one in sample.outputs]})

    def finalize_sample(self, sample):
        return sample.new_meta({"first": sample.meta[0], "models": len(sample.meta)})


def test_each_model_has_its_own_post_processing_before_a_vote():
    halved, plain = data_with(post=[HalveParams()]), data_with()
    predictor = predictor_with(lambda data_params: Named())(PredictorParams(silent=True, include_targets=True), halved)
    models = [lambda b: {"y": b["x"][:, :1]}, lambda b: {"y": b["x"][:, 1:2]}]
    predictor.set_models(models, [halved, plain])
    x = points(20)
    samples = list(
        predictor.predict_raw([Sample(inputs={"x": row}, targets={"y": row[:1]}, meta=i) for i, row in enumerate(x)])
    )
    np.testing.assert_array_equal([s.outputs["all"] for s in samples], x[:, :2] / [2, 1])
    assert [s.meta for s in samples] == [{"first": i, "models": 2} for i in range(20)]
    np.testing.assert_array_equal([s.inputs["x"] for s in samples], x)
    np.testing.assert_array_equal([s.targets["y"] for s in samples], x[:, :1])
    # Other data have their post-processing for all models; so do models without data of their own.
    assert next(predictor.predict_database(plain, TinyGenerator(samples=1))).outputs["all"] == list(x[0, :2])
    predictor.set_models(models)
    assert next(iter(predictor.predict(TinyGenerator(samples=1)))).outputs["all"] == list(x[0, :2] / 2)


class DropParams(DataProcessorParams, cls=":Drop"):
    pass


class Drop(MappingDataProcessor[DropParams]):
    def apply(self, sample):
        return sample.new_invalid()


def test_post_processing_that_drops_samples_of_one_model():
    predictor = predictor_with(lambda data_params: Named())(PredictorParams(silent=True), data_with())
    model = lambda b: {"y": b["x"]}  # noqa: E731
    predictor.set_models([model, model], [data_with(), data_with(post=[DropParams()])])
    with pytest.raises(TfaipError, match="gives different numbers of samples, which cannot vote"):
        list(predictor.predict(TinyGenerator(samples=3)))


def test_one_model_votes_alone():
    model = lambda batch: {"y": batch["x"] * 3}  # noqa: E731
    predictor = MultiModelPredictor(PredictorParams(silent=True), data_with())
    predictor.set_model(model)
    samples, expected = (one.predict(TinyGenerator(samples=5)) for one in (predictor, predictor_of(model)))
    for one, other in zip(samples, expected, strict=True):
        np.testing.assert_array_equal(one.outputs["y"], other.outputs["y"])


def test_each_model_votes_once_and_none_has_the_name_of_the_vote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for paths in (["a", "b", "a"], ["a", str(tmp_path / "a")], ["a", VOTED]):
        with pytest.raises(UsageError, match="a model is given twice, or called voted: a, .*: give each once"):
            TutorialScenario.create_multi_lav(LAVParams(), paths)


VALIDATION = TutorialGenerator(part=Part.VAL)


@pytest.fixture(scope="module")
def other_model(tutorial, tmp_path_factory):
    """The best model with other weights in its last layer."""
    from safetensors.numpy import load_file, save_file

    path = tmp_path_factory.mktemp("other") / "model"
    shutil.copytree(tutorial / "best", path, ignore=shutil.ignore_patterns("serve", "manifest.json"))
    weights = load_file(path / "weights.safetensors")
    weights["logits/bias"] = weights["logits/bias"] + np.linspace(-3, 3, 10, dtype=np.float32)
    save_file(weights, path / "weights.safetensors")
    return path


@pytest.mark.slow
@pytest.mark.backend
def test_models_of_a_scenario_vote_and_their_vote_is_scored(tutorial, other_model):
    paths = [tutorial / "best", other_model]
    params = PredictorParams(silent=True, include_targets=True)
    samples = list(TutorialScenario.create_multi_predictor(paths, params).predict(VALIDATION))
    single = [list(TutorialScenario.create_predictor(path, params).predict(VALIDATION)) for path in paths]
    labels = np.array([int(s.targets["label"][0]) for s in samples])
    for name in ("logits", "prob"):
        both = np.array([[s.outputs[name] for s in one] for one in single])
        np.testing.assert_allclose([s.outputs[name] for s in samples], both.mean(axis=0), rtol=1e-6)
    classes = np.array([[int(s.outputs["class"]) for s in one] for one in single])
    assert (classes[0] != classes[1]).any()
    np.testing.assert_array_equal([int(s.outputs["class"]) for s in samples], classes[0])  # of two the first

    (results,) = TutorialScenario.create_multi_lav(LAVParams(silent=True), paths).run([VALIDATION])
    assert list(results) == [*map(str, paths), VOTED]
    for path, one in zip(paths, classes, strict=True):
        assert results[str(path)]["acc"] == np.float32((one == labels).mean())
        assert results[str(path)]["eval_acc"] == (one == labels).mean()
    logits = np.array([s.outputs["logits"] for s in samples], np.float64)
    log_sums = np.log(np.exp(logits).sum(axis=1))
    expected = {
        "crossentropy": (log_sums - logits[np.arange(360), labels]).mean(),
        "acc": np.mean([s.outputs["prob"].argmax() == label for s, label in zip(samples, labels, strict=True)]),
        "eval_acc": (classes[0] == labels).mean(),
    }
    for name, value in expected.items():
        assert results[VOTED][name] == pytest.approx(value, rel=1e-5)
    assert results[VOTED]["loss"] == results[VOTED]["crossentropy"]


class ClassVoter(MeanVoter):
    """Votes on the class alone, as a voter of texts does."""

    def vote(self, sample):
        sample = super().vote(sample)
        return sample.new_outputs({"class": sample.outputs["class"]})


@pytest.mark.slow
def test_a_vote_on_a_part_of_the_outputs(tutorial, other_model, monkeypatch):
    """The evaluator scores it: losses and metrics need other outputs, which those of the models have."""
    paths = [tutorial / "best", other_model]
    predictor = classmethod(lambda cls: predictor_with(ClassVoter))
    monkeypatch.setattr(TutorialScenario, "multi_predictor_cls", predictor)
    (results,) = TutorialScenario.create_multi_lav(LAVParams(silent=True), paths).run([VALIDATION])
    assert results[VOTED].keys() == {"eval_acc", "worst_class", "worst_class_acc"}
    assert results[VOTED]["eval_acc"] == results[str(paths[0])]["eval_acc"]  # of two classes the first one wins
    assert results[str(paths[0])].keys() > {"loss", "crossentropy", "acc", "eval_acc"}
    assert results[str(paths[0])]["eval_acc"] != results[str(paths[1])]["eval_acc"]


class CountingPredictor(MultiModelPredictor):
    def __init__(self, params, data, start):
        super().__init__(params, data)
        self.start = start


def test_files_of_params_and_weights_elsewhere(tutorial, other_model):
    """As code for tfaip 1.2 names them."""
    params = PredictorParams(silent=True)
    files = [tutorial / "best" / "scenario_params.json"] * 2
    predictor = CountingPredictor.from_paths(
        files, params, TutorialScenario, model_paths=[tutorial / "best", other_model], predictor_args={"start": 3}
    )
    assert predictor.start == 3
    expected = TutorialScenario.create_multi_predictor([tutorial / "best", other_model], params)
    for one, other in zip(predictor.predict(VALIDATION), expected.predict(VALIDATION), strict=True):
        np.testing.assert_array_equal(one.outputs["logits"], other.outputs["logits"])
    with pytest.raises(ValueError, match="zip"):
        CountingPredictor.from_paths(files, params, TutorialScenario, model_paths=[other_model])


def test_differing_pre_processing_is_refused_and_shown(tutorial, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(tutorial / "best", other, ignore=shutil.ignore_patterns("serve", "manifest.json"))
    file = other / "scenario_params.json"
    stored = json.loads(file.read_text())
    processors = stored["data"]["pre_proc"]["processors"]
    processors[1]["white"] = 128
    file.write_text(json.dumps(stored))
    for use in (
        lambda paths: TutorialScenario.create_multi_predictor(paths, PredictorParams()),
        lambda paths: next(TutorialScenario.create_multi_lav(LAVParams(), paths).run([VALIDATION])),
    ):
        message = rf"{other} differ in their pre-processing.*data\.pre_proc\.processors\.1\.white: 255.* -> 128"
        with pytest.raises(UsageError, match=message):
            use([tutorial / "best", other])

    # Processors of the training alone, and the post-processing, may differ.
    processors[1]["white"] = 255.0
    assert processors[0]["modes"] == ["training"]
    stored["data"]["post_proc"]["processors"] = [dict(processors[0])]
    processors[0]["max_shift"] += 1
    file.write_text(json.dumps(stored))
    TutorialScenario.create_multi_predictor([tutorial / "best", other], PredictorParams())
