"""Largest memory of a process that predicts with or validates an exported model, toolkit / bare Keras.

    python benchmarks/memory.py [--samples 2000]
    KERAS_BACKEND=jax python benchmarks/memory.py

An MLP of 20 million weights (80 MB), batches of 64, images in memory. Each contestant is a process of its own:

- `predict`: the `Predictor` of `best/` | `keras.saving.load_model` of a `.keras` file and `predict`
- `lav`: LAV of `best/` | the same `load_model` and `evaluate`
- `imports`: the imports of each and the images, which the others include

`checkpoints.py` shows the memory of trainings, checkpoints and exports.
"""

import argparse
import logging
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path

from images import BACKEND, NETWORKS, BenchmarkScenario, ImagesParams, keras, synthetic_images, toolkit
from pairs import run_apart

from tfaip.predict.params import LAVParams, PredictorParams
from tfaip.util.terminal import print_table

NETWORK, BATCH_SIZE = "large", 64
KINDS = ("imports", "predict", "lav")


def write_models(directory: Path, samples: int) -> None:
    """Train an epoch with the toolkit, and write the same layers as a `.keras` file."""
    toolkit(NETWORK, samples, 1, directory / "run", BATCH_SIZE, export_best=False)(lambda: None)
    model = NETWORKS[NETWORK].build()
    model.compile(loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.build((None, 28, 28))
    model.save(directory / "model.keras")


def bare(kind: str, directory: Path, samples: int) -> None:
    """Predict or evaluate with Keras alone."""
    images, labels = synthetic_images(samples)
    if kind == "imports":
        return
    model = keras.saving.load_model(directory / "model.keras")
    if kind == "predict":
        model.predict(images, batch_size=BATCH_SIZE, verbose=0)
    else:
        model.evaluate(images, labels, batch_size=BATCH_SIZE, verbose=0)


def ours(kind: str, directory: Path, samples: int) -> None:
    """Predict or validate with the toolkit."""
    synthetic_images(samples)
    export = directory / "run" / "export"
    if kind == "predict":
        params = PredictorParams(silent=True)
        params.pipeline.batch_size = BATCH_SIZE
        predictor = BenchmarkScenario.create_predictor(export, params)
        for _ in predictor.predict(ImagesParams(samples=samples)):
            pass
    elif kind == "lav":
        lav_params = LAVParams(model_path=str(export), print_samples=False, silent=True)
        lav_params.pipeline.batch_size = BATCH_SIZE
        lav = BenchmarkScenario.create_lav(lav_params, BenchmarkScenario.params_from_path(export))
        list(lav.run([ImagesParams(samples=samples)]))


def main() -> None:
    """Parse the command line; measure, or be one of those that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000, help="number of images")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    logging.getLogger("tfaip").setLevel(logging.ERROR)
    if args.part:
        side, kind, directory = args.part
        sides: dict[str, Callable[[str, Path, int], None]] = {"toolkit": ours, "bare": bare}
        if side == "write":
            write_models(Path(directory), args.samples)
        else:
            sides[side](kind, Path(directory), args.samples)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return
    with tempfile.TemporaryDirectory() as directory:
        common = ("--samples", args.samples, "--part")
        run_apart(*common, "write", "", directory)
        rows = []
        for kind in KINDS:
            both = [run_apart(*common, side, kind, directory) for side in ("toolkit", "bare")]
            rows.append([kind, *(f"{one:.0f} MB" for one in both), f"{both[0] / both[1]:.3f}"])
    print(BACKEND)
    print_table(["", "toolkit", "bare Keras", "ratio"], rows)


if __name__ == "__main__":
    main()
