"""A run in TensorBoard: its real server reads the curves back, and a browser shows its page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import REPOSITORY
from test.support.tiny.scenario import TinyScenario

pytestmark = pytest.mark.slow  # the server and its run, which all cases share


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three epochs, the third after a resume."""
    params = TinyScenario.default_trainer_params()
    params.output_dir = str(tmp_path_factory.mktemp("runs") / "run")
    params.random_seed, params.lav_every_n, params.histogram_every_n = 1, 1, 2
    params.epochs = 2
    TinyScenario.create_trainer(params).train()
    params.epochs = 3
    TinyScenario.create_trainer(params, restore=True).train()
    return Path(params.output_dir)


@dataclass
class Server:
    """A TensorBoard server, which writes its messages into a pipe, and the address of its page."""

    process: subprocess.Popen[bytes]
    address: str = ""

    def wait_for_address(self) -> None:
        for line in iter(self.process.stderr.readline, b""):
            if found := re.search(rb"http://localhost:\d+/", line):
                self.address = found[0].decode()
                return
        pytest.fail("tensorboard ended without an address")

    def new_messages(self) -> str:
        """Return what the server has written since it was last asked, without waiting for more."""
        os.set_blocking(self.process.stderr.fileno(), False)
        return (self.process.stderr.read() or b"").decode()

    def read(self, route: str, **query: str) -> Any:
        """Ask for JSON."""
        address = f"{self.address}data/plugin/{route}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=60) as reply:  # noqa: S310
            return json.loads(reply.read())


@pytest.fixture(scope="module")
def server(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A TensorBoard server on the runs; it finds our plugin also in an installation that is older than the plugin."""
    metadata = tmp_path_factory.mktemp("installed") / "tfaip_of_this_test-0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tfaip-of-this-test\nVersion: 0\n")
    plugins = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"{name} = {target}" for name, target in plugins["tensorboard_plugins"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[tensorboard_plugins]", *lines]) + "\n")
    options = ["--logdir", str(run.parent), "--port", "0", "--load_fast", "false"]
    command = [sys.executable, "-m", "tensorboard.main", *options]
    path = os.pathsep.join([str(REPOSITORY), str(metadata.parent)])
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
    server = Server(subprocess.Popen(command, stderr=subprocess.PIPE, env=environment))
    try:
        server.wait_for_address()
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def test_curves_are_those_of_the_history(run: Path, server: Server) -> None:
    def curve(kind: str, tag: str) -> dict[int, float]:
        return {step: value for _, step, value in server.read("scalars/scalars", run=f"run/{kind}", tag=tag)}

    history = json.loads((run / "history.json").read_text())
    for kind, tag, name in [
        *(("train", "loss", "loss"), ("train", "mae", "mae")),
        *(("validation", "loss", "val_loss"), ("lav_l0", "loss", "lav_l0_loss")),
    ]:
        expected = {int(epoch): record["values"][name] for epoch, record in history.items()}
        assert sorted(expected) == [1, 2, 3]
        # Events hold float32.
        assert curve(kind, tag) == pytest.approx(expected, rel=1e-7)
    # Rate 0.01, halved after two epochs.
    assert curve("train", "lr") == pytest.approx({1: 0.01, 2: 0.01, 3: 0.005}, rel=1e-6)
    # Histograms of the weights in their epochs, with buckets of (left, right, count): 4 inputs times 8 units.
    ((_, step, buckets),) = server.read("histograms/histograms", run="run/train", tag="weights/hidden/kernel")
    assert (step, sum(count for _, _, count in buckets)) == (2, 32)


def test_the_directory_of_checkpoints_is_no_reason_to_warn(run: Path, server: Server) -> None:
    """The projector looks for a file of that name, when its page is asked for and whenever the list of pages is."""
    assert (run / "checkpoint").is_dir()
    for _ in range(2):
        assert server.read("projector/runs") == []
    assert "heckpoint" not in server.new_messages()
