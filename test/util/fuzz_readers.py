"""Damaged and hostile files for every reader of the toolkit: it must refuse them with one of our errors, or read them.

A finding is another exception, or more than `ALARM_S` for a file.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import re
import shutil
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tfaip.errors import TfaipError

# Of a message, with the path of the file.
LONGEST_MESSAGE = 400
# A reader that does not come back is stopped.
ALARM_S = 10

NAMES = ["os:system", "tfaip.util.files:remove_directory", "keras.utils:get_file", "builtins:eval", "..", "/etc/passwd"]
ODD: list[Any] = [None, True, False, 0, -1, 1e308, float("nan"), float("inf"), 2**31, 2**63, -(2**63), 10**30, 10**400]
ODD += ["", " ", "\0", "\ud800", "é", "{epoch}", "x" * 5000, "1e999", "0x10", "9" * 400, "${HOME}"]
ODD += ["!!python/object:os.system", [], {}, [[]], [None], {"": None}, {"__cls__": "os:system"}, {"__cls__": 3}, *NAMES]
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
NUMBERS = [
    b"-1",
    b"0",
    b"1e400",
    b"1e-400",
    b"9" * 30,
    b"9" * 6000,
    b"2147483648",
    b"9223372036854775808",
    b"NaN",
    b"-0",
]
PIECES = [
    b"\0",
    b"\xff\xfe",
    b"\n",
    b'"',
    b"[" * 5000,
    b'{"a":' * 2000,
    b"&a ",
    b"*a ",
    b"!!x ",
    b"\x80" * 9,
    b"- " * 900,
]


@dataclass(frozen=True)
class Target:
    """A reader, and what it reads.

    Args:
        file: the file that is damaged, below the directory.
        read: gets the path of the directory.
        directory: good files; a copy is damaged.
        has_manifest: the manifest is written again, so that the reader comes to the content.
    """

    file: str
    read: Callable[[Path], Any]
    directory: Path
    has_manifest: bool = False


def make_examples(directory: Path) -> dict[str, Target]:
    """Write good files of each kind; return the readers by a name."""
    import numpy as np

    from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
    from tfaip.data.generators.csvfile import CsvGeneratorParams
    from tfaip.data.generators.listsfile import ListsFileGeneratorParams
    from tfaip.data.pipeline.definitions import PipelineMode, Sample
    from tfaip.export.modelloading import load_exported_params
    from tfaip.export.savedmodelvariables import read_saved_model
    from tfaip.export.trainingdata import load_training_data
    from tfaip.model.weights import load_weights_of
    from tfaip.params.commandline import load_config
    from tfaip.params.stored import load_params
    from tfaip.predict.samplefile import SampleWriter, read_samples
    from tfaip.scripts.common.parser import load_trainer_params
    from tfaip.trainer.history import read_history
    from tfaip.trainer.run.output import read_checkpoint
    from tfaip.trainer.tools.runs import read_run
    from tfaip.util.manifest import read_manifest

    run = directory / "run"
    params = TinyScenario.default_trainer_params()
    params.epochs, params.output_dir, params.random_seed = 2, str(run), 1
    params.scenario.export_serve = True
    with contextlib.redirect_stdout(None), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        TinyScenario.create_trainer(params).train()
    texts = directory / "texts"
    texts.mkdir()
    (texts / "flags.yaml").write_text("trainer:\n  epochs: 3\noptimizer: SGD\nmodel: {units: 7}\nlist: [1, 2.5, a]\n")
    (texts / "flags.json").write_text('{"trainer": {"epochs": 3}, "optimizer": "SGD", "model": {"units": 7}}')
    (texts / "table.csv").write_text('image,label\na.png,1\n"b,c",2\n"d""e",3\n')
    (texts / "list.txt").write_text("# files\na.png\nb.png\n\nc d.png\n")
    (texts / "learning_rates").write_text(
        "{1: EpochData(learningRate=0.001, error={'dev_score': 1.5}),\n2: EpochData(learningRate=0.0005, error={})}\n"
    )
    rng = np.random.default_rng(1)
    for name in ("samples.jsonl", "samples.npz"):
        with SampleWriter(texts / name, with_inputs=True) as writer:
            for i in range(3):
                x = rng.normal(size=(i + 1, 2)).astype("float32")
                writer.write(Sample(inputs={"x": x}, outputs={"y": np.asarray(i)}, meta={"name": f"s{i}"}))
    best, checkpoint = run / "best", run / "checkpoint" / "epoch_0002"

    texts_of = {
        "flags.yaml": lambda path: load_config(str(path)),
        "flags.json": lambda path: load_config(str(path)),
        "table.csv": lambda path: list(CsvGeneratorParams(files=[str(path)]).create(PipelineMode.TRAINING).generate()),
        "list.txt": lambda path: len(ListsFileGeneratorParams(lists=[str(path)]).create(PipelineMode.TRAINING)),
        "learning_rates": read_history,
        "samples.jsonl": lambda path: list(read_samples(path)),
        "samples.npz": lambda path: list(read_samples(path)),
    }
    return {
        **{name: Target(name, lambda path, n=name: texts_of[n](path / n), texts) for name in texts_of},
        "trainer_params.json": Target(
            "trainer_params.json", lambda path: load_params(path / "trainer_params.json", TinyTrainerParams), run
        ),
        "stored run": Target(
            "trainer_params.json", lambda path: load_trainer_params(path / "trainer_params.json", []), run
        ),
        "history.json": Target("history.json", lambda path: read_history(path / "history.json"), run),
        "listed run": Target("history.json", read_run, run),
        "listed params": Target("trainer_params.json", read_run, run),
        "manifest.json": Target("manifest.json", read_manifest, best),
        "weights.safetensors": Target("weights.safetensors", load_weights_of, best, True),
        "scenario_params.json": Target("scenario_params.json", load_exported_params, best, True),
        "training_data.json": Target(
            "training_data.json", lambda path: load_training_data(path, TinyScenario), best, True
        ),
        "state.json": Target("state.json", read_checkpoint, checkpoint, True),
        "state.safetensors": Target("state.safetensors", read_checkpoint, checkpoint, True),
        "variables.index": Target("variables/variables.index", read_saved_model, best / "serve"),
        "variables.data": Target("variables/variables.data-00000-of-00001", read_saved_model, best / "serve"),
        "saved_model.pb": Target("saved_model.pb", read_saved_model, best / "serve"),
    }


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return a file that differs from a good one."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        kinds: list[Callable[[bytes, random.Random], bytes]] = [_cut, _flip, _insert, _repeat, _number, _tree, _tree]
        content = rng.choice(kinds)(content, rng)
    return content


def _place(content: bytes, rng: random.Random) -> int:
    # Headers are at the beginning, some tables at the end.
    ends = [rng.randint(0, min(64, len(content))), rng.randint(max(0, len(content) - 64), len(content))]
    return rng.choice([rng.randint(0, len(content)), *ends])


def _cut(content: bytes, rng: random.Random) -> bytes:
    begin = _place(content, rng)
    return rng.choice([content[:begin], content[:begin] + content[begin + rng.randint(1, 40) :]])


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 8])):
        if changed:
            changed[min(_place(content, rng), len(changed) - 1)] = rng.randrange(256)
    return bytes(changed)


def _insert(content: bytes, rng: random.Random) -> bytes:
    begin = _place(content, rng)
    return content[:begin] + rng.choice([*PIECES, rng.randbytes(rng.randint(1, 64))]) + content[begin:]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    begin, size = _place(content, rng), rng.randint(1, 200)
    return content[:begin] + content[begin : begin + size] * rng.choice([2, 50]) + content[begin + size :]


def _number(content: bytes, rng: random.Random) -> bytes:
    found = list(NUMBER.finditer(content))
    if not found:
        return content
    match = rng.choice(found)
    return content[: match.start()] + rng.choice(NUMBERS) + content[match.end() :]


def _tree(content: bytes, rng: random.Random) -> bytes:
    """Replace, rename or remove a value of a JSON document, or of a line of JSON; other content is cut."""
    lines = content.split(b"\n") if content.count(b"\n{") else [content]
    index = rng.randrange(len(lines))
    try:
        document = json.loads(lines[index])
    except (ValueError, RecursionError):
        return _cut(content, rng)
    places = list(_places(document))
    if not places:
        return json.dumps(rng.choice(ODD)).encode(errors="replace")
    parent, key = rng.choice(places)
    action = rng.randrange(4)
    value = rng.choice(ODD)
    if action == 0 and isinstance(parent, dict):
        parent[rng.choice(["__cls__", "x", "", "a.b", "é" * 300])] = value
    elif action == 1:
        del parent[key]
    elif action == 2:  # what stands elsewhere
        other, place = rng.choice(places)
        parent[key] = copy.deepcopy(other[place])
    else:
        parent[key] = value
    lines[index] = json.dumps(document, ensure_ascii=rng.random() < 0.5).encode(errors="surrogatepass")
    return b"\n".join(lines)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container below a value with each of its keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


class TooLong(Exception):
    """A reader did not come back."""


def stop(number: int, frame: FrameType | None) -> None:
    """Handle the alarm: leave a reader that does not come back."""
    raise TooLong(f"no answer within {ALARM_S} s")


def problem_of(target: Target, seed: int, directory: Path) -> str | None:
    """Read a file that is made from a seed; return what is wrong with the answer, or None."""
    from tfaip.util.manifest import MANIFEST_FILE, write_manifest

    place = directory / "copy"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(target.directory, place)
    file = place / target.file
    file.write_bytes(damaged(file.read_bytes(), random.Random(seed)))  # noqa: S311
    if target.has_manifest:
        facts = json.loads((place / MANIFEST_FILE).read_text())
        del facts["files"]
        write_manifest(place, facts)
    signal.alarm(ALARM_S)
    try:
        target.read(place)
    except TfaipError as error:
        if "\n" in str(error) or len(str(error)) > LONGEST_MESSAGE:
            return f"the message has {len(str(error))} characters: {str(error)[:400]!r}"
    except BaseException as error:
        calls = "".join(traceback.format_tb(error.__traceback__)[-2:])
        return f"{type(error).__name__}: {str(error)[:200]}\n{calls}"
    finally:
        signal.alarm(0)
    return None
