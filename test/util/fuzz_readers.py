"""Damaged and hostile files for every reader of the toolkit: it must refuse them with one of our errors, or read them.

A finding is another exception, or more than `ALARM_S` for a file.
"""

import contextlib
import json
import random
import re
import shutil
import signal
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from test.support.tiny.scenario import TinyScenario
from test.util.test_readers import READERS, Reader
from tfaip.errors import TfaipError
from tfaip.export.savedmodelvariables import read_saved_model
from tfaip.imports import Sample
from tfaip.predict.samplefile import SampleWriter
from tfaip.trainer.tools.runs import read_run
from tfaip.util.manifest import MANIFEST_FILE, write_manifest

# Of a message, with the path of the file.
LONGEST_MESSAGE = 400
# A reader that does not come back is stopped.
ALARM_S = 10

NAMES = ["os:system", "tfaip.util.files:remove_directory", "keras.utils:get_file", "builtins:eval", "..", "/etc/passwd"]
ODD: list[Any] = [None, True, False, 0, -1, 1e308, float("nan"), float("inf"), 2**31, 2**63, -(2**63), 10**30, 10**400]
ODD += ["", " ", "\0", "\ud800", "é", "{epoch}", "x" * 5000, "1e999", "0x10", "9" * 400, "${HOME}"]
ODD += ["!!python/object:os.system", [], {}, [[]], [None], {"": None}, {"__cls__": "os:system"}, {"__cls__": 3}, *NAMES]
VALUE = re.compile(rb'"(?:[^"\\\n]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|\{\}|\[\]')
NUMBERS = [b"-1", b"1e400", b"1e-400", b"9" * 30, b"9" * 6000, b"2147483648", b"9223372036854775808", b"NaN", b"-0"]
PIECES = [b"", b"", b"\0", b"\xff\xfe", b"\n", b'"', b"[" * 5000, b'{"a":' * 2000, b"&a ", b"*a ", b"!!x ", b"\x80" * 9]

TEXTS = {
    "flags.yaml": "trainer:\n  epochs: 3\noptimizer: SGD\nmodel: {units: 7}\nlist: [1, 2.5, a]\n",
    "flags.json": '{"trainer": {"epochs": 3}, "optimizer": "SGD", "model": {"units": 7}}',
    "table.csv": 'image,label\na.png,1\n"b,c",2\n"d""e",3\n',
    "list.txt": "# files\na.png\nb.png\n\nc d.png\n",
    "rates": "{1: EpochData(learningRate=0.001, error={'dev': 1.5}),\n2: EpochData(learningRate=0.0005, error={})}\n",
}


def make_examples(directory: Path) -> list[tuple[Path, Reader]]:
    """Write good files of each kind; return what reads each."""
    run = directory / "run"
    params = TinyScenario.default_trainer_params()
    params.epochs, params.output_dir, params.random_seed = 2, str(run), 1
    params.scenario.export_serve = True
    with contextlib.redirect_stdout(None), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        TinyScenario.create_trainer(params).train()
    rng = np.random.default_rng(1)
    (directory / "texts").mkdir()
    for name, text in TEXTS.items():
        (directory / "texts" / name).write_text(text)
    for name in ("samples.jsonl", "samples.npz"):
        with SampleWriter(directory / "texts" / name, with_inputs=True) as writer:
            for i in range(3):
                x = rng.normal(size=(i + 1, 2)).astype("float32")
                writer.write(Sample(inputs={"x": x}, outputs={"y": np.asarray(i)}, meta={"name": f"s{i}"}))
    best, checkpoint = run / "best", run / "checkpoint" / "epoch_0002"
    texts = [(path, READERS.get(path.name, READERS["history.json"])) for path in (directory / "texts").iterdir()]
    stored = run / "trainer_params.json"
    runs = [(stored, READERS["params.json"]), (stored, READERS["trainer_params.json"])]
    runs += [(path, lambda path: read_run(path.parent)) for path in (stored, run / "history.json")]
    runs += [(run / "history.json", READERS["history.json"]), (best / MANIFEST_FILE, READERS[MANIFEST_FILE])]
    models = [best / name for name in ("weights.safetensors", "scenario_params.json", "training_data.json")]
    runs += [(path, READERS[path.name]) for path in (*models, checkpoint / "state.safetensors")]
    runs.append((checkpoint / "state.json", READERS["state.safetensors"]))
    parts = ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001")
    saved = [(best / "serve" / part, read_parts) for part in parts]
    return [*texts, *runs, *saved]


def read_parts(path: Path) -> None:
    """Read the SavedModel that a file belongs to."""
    read_saved_model(path.parent.parent if path.parent.name == "variables" else path.parent)


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return a file that differs from a good one."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        content = rng.choice([_splice, _value])(content, rng)
    return content


def _splice(content: bytes, rng: random.Random) -> bytes:
    """Replace some bytes by others; headers are at the beginning, some tables at the end."""
    ends = [rng.randint(0, min(64, len(content))), rng.randint(max(0, len(content) - 64), len(content))]
    begin = rng.choice([rng.randint(0, len(content)), *ends])
    repeated = content[begin : begin + rng.randint(1, 200)] * rng.choice([2, 50])
    piece = rng.choice([*PIECES, *[rng.randbytes(rng.choice([1, 1, 40])) for _ in range(8)], repeated])
    return content[:begin] + piece + content[begin + rng.choice([0, 1, 1, 40, len(content)]) :]


def _value(content: bytes, rng: random.Random) -> bytes:
    """Replace or remove a value or key of a document."""
    found = list(VALUE.finditer(content))
    if not found:
        return _splice(content, rng)
    match, other = rng.choice(found), rng.choice(found)
    odd = json.dumps(rng.choice(ODD), ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
    new = rng.choice([odd, odd, odd, rng.choice(NUMBERS), other[0], b""])
    return content[: match.start()] + new + content[match.end() :]


def stop(number: int, frame: FrameType | None) -> None:
    """Handle the alarm: leave a reader that does not come back."""
    raise TimeoutError(f"no answer within {ALARM_S} s")


def problem_of(file: Path, read: Callable[[Path], Any], seed: int) -> str | None:
    """Read a file that is made from a seed; return what is wrong with the answer, or None."""
    root = file.parent.parent if file.parent.name == "variables" else file.parent
    place = root.with_name("copy")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(root, place)
    changed = place / file.relative_to(root)
    changed.write_bytes(damaged(file.read_bytes(), random.Random(seed)))  # noqa: S311
    if (place / MANIFEST_FILE).exists() and file.name != MANIFEST_FILE:  # so that the reader comes to the content
        facts = json.loads((place / MANIFEST_FILE).read_text())
        del facts["files"]
        write_manifest(place, facts)
    signal.alarm(ALARM_S)
    try:
        read(changed)
    except TfaipError as error:
        if "\n" in str(error) or len(str(error)) > LONGEST_MESSAGE:
            return f"the message has {len(str(error))} characters: {str(error)[:400]!r}"
    except BaseException as error:
        calls = "".join(traceback.format_tb(error.__traceback__)[-2:])
        return f"{type(error).__name__}: {str(error)[:200]}\n{calls}"
    finally:
        signal.alarm(0)
    return None
