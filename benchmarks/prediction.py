"""Prediction and LAV against bare `keras.Model.predict` and `evaluate`, and the start-up of `tfaip-lav`.

    python benchmarks/prediction.py [--pairs 7] [--only heavy tiny raw start]
    KERAS_BACKEND=jax python benchmarks/prediction.py

heavy: a fully connected model whose batches of 128 take 5 ms or more; tiny: 28x28 -> 128 -> 10, batches of 16. Both
sides run the same layers on the same arrays, in turn, after a warm-up of each. The samples of a prediction are taken
one by one and counted. raw: single samples, against a call of the layers. start: whole processes, `tfaip-lav` on a
trained tutorial against a script that builds the layers with Keras, loads the same weights, and evaluates the same
images.
"""

import argparse
import logging
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from images import BACKEND, BenchmarkScenario, ImagesParams, synthetic_images
from pairs import race_calls, ratio_text

from tfaip.lav.evaluation import PredictionEvaluation
from tfaip.predict.params import PredictorParams
from tfaip.predict.predictor import Predictor

WHAT = ["heavy", "tiny", "raw", "start"]
HAND_WRITTEN = """
import sys
import keras
import numpy as np
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

digits = load_digits()
images = (digits.images[::5] * (255 / 16)).astype("uint8")[..., None] / np.float32(255)
labels = digits.target[::5].astype("int32")
inputs = keras.Input((8, 8, 1))
hidden = keras.layers.Dense(32, activation="relu", name="hidden")
logits = keras.layers.Dense(10, name="logits")
model = keras.Model(inputs, logits(hidden(keras.layers.Flatten()(inputs))))
weights = load_file(sys.argv[1])
hidden.set_weights([weights["features/hidden/0/kernel"], weights["features/hidden/0/bias"]])
logits.set_weights([weights["logits/kernel"], weights["logits/bias"]])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(loss=loss, metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")])
print(model.evaluate(images, labels, batch_size=16, verbose=0, return_dict=True))
"""


def compare(what: str, ours: Callable[[], Any], bare: Callable[[], Any], pairs: int, samples: int, batch: int) -> None:
    """Run both in turn and print throughput ratios and what each sample costs more."""
    times = race_calls(ours, bare, pairs)
    own, theirs = map(statistics.median, times)
    print(
        f"{BACKEND}, {what}: toolkit {own:.3f} s, bare {theirs:.3f} s, {1e3 * theirs / samples * batch:.2f} ms/batch; "
        f"throughput ratio {ratio_text(times[1], times[0])}; {1e6 * (own - theirs) / samples:+.2f} us per sample"
    )


def predictor_of(network: str, batch: int) -> tuple[BenchmarkScenario, Predictor]:
    """Return a scenario with a network, and its predictor."""
    params = BenchmarkScenario.default_params()
    params.model.network = network
    scenario = BenchmarkScenario(params)
    predict = PredictorParams(silent=True)
    predict.pipeline.batch_size = batch
    predictor = Predictor(predict, scenario.data)
    predictor.set_model(scenario.graph)
    return scenario, predictor


def measure(name: str, network: str, samples: int, batch: int, pairs: int) -> None:
    """Prediction and LAV of one model."""
    scenario, predictor = predictor_of(network, batch)
    generator = ImagesParams(samples=samples)
    images, labels = synthetic_images(samples)
    evaluation = PredictionEvaluation(scenario, predictor.params.pipeline, silent=True)
    bare = scenario.graph.network
    bare.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    compare(
        f"{name}, predict",
        lambda: sum(1 for _ in predictor.predict(generator)),
        lambda: bare.predict(images, batch_size=batch, verbose=0),
        pairs,
        samples,
        batch,
    )
    compare(
        f"{name}, LAV",
        lambda: evaluation.run(generator),
        lambda: bare.evaluate(images, labels, batch_size=batch, verbose=0),
        pairs,
        samples,
        batch,
    )


def measure_raw(calls: int, pairs: int) -> None:
    """Single samples, as a service has them: `Predictor.raw()` and a plain call of the layers."""
    scenario, predictor = predictor_of("mlp", batch=16)
    bare = scenario.graph.network
    bare.build((None, 28, 28))
    images, _ = synthetic_images(calls)
    with predictor.raw() as raw:
        compare(
            "tiny, single samples with Predictor.raw()",
            lambda: [raw({"image": image}) for image in images],
            lambda: [np.asarray(bare(image[None])) for image in images],
            pairs,
            calls,
            1,
        )


def measure_start(pairs: int) -> None:
    """Whole processes."""
    with tempfile.TemporaryDirectory() as directory:
        run = Path(directory) / "run"
        flags = ["--trainer.epochs", "1", "--model.graph", "MLP", "--model.graph.units", "32"]
        tutorial = ["tfaip.scenario.tutorial.full", "--trainer.output_dir", str(run), *flags]
        process("-m", "tfaip.scripts.train", *tutorial, "--scenario.export_serve", "False")
        lav = ["-m", "tfaip.scripts.lav", "--export_dir", str(run / "best"), "--lav.silent", "True"]
        compare(
            "start and evaluation of the tutorial, processes",
            lambda: process(*lav),
            lambda: process("-c", HAND_WRITTEN, str(run / "best" / "weights.safetensors")),
            pairs,
            360,
            16,
        )


def process(*args: str) -> None:
    """Run Python to its end."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, *args], env=environment, check=True, capture_output=True)  # noqa: S603


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="runs of each that are compared")
    parser.add_argument("--only", nargs="+", choices=WHAT, default=WHAT)
    args = parser.parse_args()
    logging.getLogger("tfaip").setLevel(logging.WARNING)
    if "heavy" in args.only:
        measure("heavy", "wide", samples=4096, batch=128, pairs=args.pairs)
    if "tiny" in args.only:
        measure("tiny", "mlp", samples=20_000, batch=16, pairs=args.pairs)
    if "raw" in args.only:
        measure_raw(calls=500, pairs=args.pairs)
    if "start" in args.only:
        measure_start(args.pairs)


if __name__ == "__main__":
    main()
