"""SavedModels that Keras 2 wrote, by `git show c6765723:test/data/keras2/make_models.py`."""

import tarfile
from pathlib import Path

import numpy as np
import pytest

from test.support.commands import REPOSITORY
from test.support.runs import make_once

ARCHIVE = REPOSITORY / "test" / "data" / "keras2" / "models.tar.xz"

# What the models were called with.
BATCH = {
    "seq": np.linspace(-1, 1, 2 * 6 * 3, dtype=np.float32).reshape(2, 6, 3),
    "feat": np.linspace(1, -2, 2 * 4, dtype=np.float32).reshape(2, 4),
}


def keras_2_models(factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the unpacked models; to be read."""

    def make(path: Path) -> None:
        with tarfile.open(ARCHIVE) as archive:
            # As the argument `filter`, which early releases of Python 3.11 do not have.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            archive.extractall(path)  # noqa: S202 (our own archive)

    return make_once(factory, "keras_2_models", make)


def example(model: Path, kind: str) -> dict[str, np.ndarray]:
    """Return what Keras 2 itself has or computed: `inputs`, `outputs` or `weights` by name."""
    arrays = np.load(model / "example.npz")
    prefix = f"{kind}/"
    return {name.removeprefix(prefix): arrays[name] for name in arrays.files if name.startswith(prefix)}
