"""The check of the export before the first batch on JAX: without TensorFlow, which the first SavedModel imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.support.commands import finish_command, start_python

# Three graphs: one that is right, one that counts its calls, and one that gives something else in the second check.
GRAPHS = """
import sys, tempfile
from pathlib import Path
import keras
import numpy as np
from test.export.test_savedmodelformat import scale_graphs
from test.model.support import ScaleGraph
from tfaip.errors import TfaipError
from tfaip.export.formats import Advice, ExportFormats

# The graph multiplies by 2.
graph = ScaleGraph()
calls, checks = [0], [0]

def counting(inputs):
    calls[0] += 1
    return {"y": inputs["x"] * calls[0]}

def changing(inputs):
    checks[0] += isinstance(inputs["x"], np.ndarray)  # not traced
    return {"y": inputs["x"] * (5.0 if checks[0] > 1 and isinstance(inputs["x"], np.ndarray) else 3.0)}

inputs = {"x": np.float32([[1], [3]])}

def formats(function=None):
    return ExportFormats(scale_graphs(graph, function), ["serve"], Advice("on failure", "on difference"))

def report(title, function):
    try:
        function()
    except TfaipError as error:
        print(title, "failed:", error)
    else:
        print(title, "passed, TensorFlow", "tensorflow" in sys.modules)

fine, later, bad = formats(), formats(changing), formats(counting)
directory = Path(tempfile.mkdtemp())
report("fine", lambda: fine.begin_check(inputs))
report("later", lambda: later.begin_check(inputs))
report("bad", lambda: bad.begin_check(inputs))
report("fine is written", lambda: fine.write(directory / "fine"))
report("later is written", lambda: later.write(directory / "later"))
report("fine is written again", lambda: fine.write(directory / "again"))
"""


@pytest.mark.slow
def test_what_is_found_before_and_with_the_first_model() -> None:
    result = finish_command(start_python("-c", GRAPHS, env={"KERAS_BACKEND": "jax"}))
    assert result.rc == 0, str(result)
    lines = result.stdout.splitlines()
    assert lines[:2] == ["fine passed, TensorFlow False", "later passed, TensorFlow False"]
    assert lines[2].startswith("bad failed: graph 'serve' in serve/: the exported model gives other values for output")
    assert lines[2].endswith("; on difference")
    assert lines[3] == "fine is written passed, TensorFlow True"
    assert lines[4].startswith("later is written failed: graph 'serve' in serve/: the exported model gives other value")
    assert lines[5:] == ["fine is written again passed, TensorFlow True"]


# Graphs whose export in JAX's own format passes or says too little: only the SavedModel tells that it cannot be.
REFUSED = """
import sys
import numpy as np
from keras import ops
from test.export.test_savedmodelformat import scale_graphs
from test.model.support import ScaleGraph
from tfaip.export import formats
from tfaip.export.formats import ExportFormats

formats.tensorflow_is_imported = lambda: False
FUNCTIONS = {
    "a list": lambda inputs: {"y": [inputs["x"]]},
    "None": lambda inputs: {"y": None},
    "a dict": lambda inputs: {"y": {"a": inputs["x"]}},
    "number as name": lambda inputs: {1: inputs["x"]},
    "top_k": lambda inputs: {"y": ops.top_k(inputs["x"], 1)[0]},
}
for title, function in FUNCTIONS.items():
    checked = ExportFormats(scale_graphs(ScaleGraph(), function), ["serve"])
    try:
        checked.begin_check({"x": np.float32([[1], [3]])})
    except Exception as error:
        print(title, "refused")
    else:
        print(title, "passed")
checked = ExportFormats(scale_graphs(ScaleGraph()), ["serve"])
checked.begin_check({"x": np.float32([[1], [3]]), "unread": np.float32([[1], [3]])})
print("input without a layer passed")
"""


@pytest.mark.slow
def test_what_no_savedmodel_can_hold_is_refused_at_once() -> None:
    result = finish_command(start_python("-c", REFUSED, env={"KERAS_BACKEND": "jax"}))
    assert result.rc == 0, str(result)
    refused = ["a list", "None", "a dict", "number as name", "top_k"]
    assert result.stdout.splitlines() == [*(f"{title} refused" for title in refused), "input without a layer passed"]


# Prints whether TensorFlow is imported when an epoch begins.
TRAINING = """
import sys
from pathlib import Path
import keras
from test.trainer.line import LineScenario, line_params

class Tell(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        print(epoch, "tensorflow" in sys.modules, flush=True)

params = line_params([1, 2], val_x=[1.0], output_dir=Path(sys.argv[1]), epochs=2)
params.export_best, params.skip_model_load_test = (flag == "True" for flag in sys.argv[2:4])
params.val_every_n = int(sys.argv[4])
params.scenario.export_serve = params.export_final = True
LineScenario.create_trainer(params).train([Tell()])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("export_best", "skips_check", "val_every_n", "imported"),
    [(True, False, 1, [False, True]), (False, False, 1, [True, True]), (False, True, 1, [False, False])],
    ids=["best models", "the final model alone", "no check"],
)
def test_tensorflow_is_imported_after_the_first_epoch(
    tmp_path: Path, export_best: bool, skips_check: bool, val_every_n: int, imported: list[bool]
) -> None:
    options = [str(export_best), str(skips_check), str(val_every_n)]
    result = finish_command(start_python("-c", TRAINING, tmp_path / "run", *options, env={"KERAS_BACKEND": "jax"}))
    assert result.rc == 0, str(result)
    told = [line for line in result.stdout.splitlines() if line.endswith(("True", "False"))]
    assert told == [f"{epoch} {value}" for epoch, value in enumerate(imported)]
    assert (tmp_path / "run" / "export" / "serve" / "saved_model.pb").is_file()
