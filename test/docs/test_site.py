"""The site: it is built without a warning, and its reference is complete."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import tfaip.imports
import tfaip.testing
from test.support.commands import REPOSITORY
from tfaip.lav import callbacks
from tfaip.params import ParamsBase
from tfaip.trainer import optimizer, scheduler

DIRECTIVE = re.compile(r"^\.\. auto(?:class|function|data):: (\w+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    pytest.importorskip("furo")
    built = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-c", "docs", "-b", "html", "-d", str(built / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, ".", str(built / "html")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return built / "html"


@pytest.mark.slow
def test_the_site_has_what_it_is_made_of(site: Path) -> None:
    assert 'url=README.html"' in (site / "index.html").read_text()
    front = (site / "README.html").read_text()
    quickstart = (site / "docs" / "quickstart.html").read_text()
    assert '<a class="reference internal" href="scenario.html">Writing a scenario</a>' in quickstart
    params = (site / "docs" / "api" / "training.html").read_text()
    # A field of params with type, default, help text and range.
    field = params[params.index('id="tfaip.imports.TrainerParams.keep_checkpoints"') :].partition("</dl>")[0]
    text = re.sub(r"<[^>]+>|\s+", " ", field)
    assert "int = 2" in " ".join(text.split())
    assert "Number of checkpoints to keep, at least 2 (at least 2)" in " ".join(text.split())
    # Nothing is loaded from elsewhere.
    assert re.findall(r'(?:<script[^>]*src|<link[^>]*stylesheet[^>]*href)="https?:[^"]*"', front) == []
    assert "_static/copy.js" in front


def test_the_reference_has_every_public_name_once() -> None:
    listed = Counter(
        name for page in (REPOSITORY / "docs" / "api").glob("*.md") for name in DIRECTIVE.findall(page.read_text())
    )
    bases = {"FlatParams", "MomentsOptimizer", "RelativeFeedbackParams", "WarmupParams"}
    found = [(name, one) for module in (optimizer, scheduler, callbacks) for name, one in vars(module).items()]
    # Not the names of tfaip 1.2, which other tests have asked for.
    classes = [one for name, one in found if isinstance(one, type) and one.__name__ == name]
    shown = {one.__name__ for one in classes if issubclass(one, ParamsBase) or one.__module__ == callbacks.__name__}
    public = {*tfaip.imports.__all__, *tfaip.testing.__all__, *shown} - bases
    assert public - set(listed) == set()
    assert {name: count for name, count in listed.items() if count > 1} == {}
