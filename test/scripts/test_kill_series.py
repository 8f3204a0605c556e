"""What the kill series compares; `make series` runs some of its cases, `python -m test.kill_series` any number."""

from __future__ import annotations

import shutil
from pathlib import Path

from test.kill_series import PACKAGE, RUN, TEMPORARY, differences, facts_of, left_over


def test_every_difference_is_found(whole: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(whole / "run", tmp_path / "run"))
    facts = facts_of(run)
    assert {"best/weights.safetensors", "export/manifest.json", "arrays", "history", "params"} <= set(facts)
    assert differences(facts_of(run), facts) == []
    weights = run / "export" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    (run / "best" / "more").touch()
    found = ["export/weights.safetensors differs", "best/more differs"]
    assert sorted(differences(facts_of(run), facts)) == sorted(found)


def test_what_is_left_is_found(tmp_path: Path) -> None:
    for name in (RUN, TEMPORARY, PACKAGE.name):
        (tmp_path / name).mkdir()
    assert list(left_over(tmp_path)) == []
    left = {"stray": "is left beside the run", f"{TEMPORARY}/x": "is left", f"{RUN}/.tmp-x": "is left in the run"}
    for name in left:
        (tmp_path / name).touch()
    assert list(left_over(tmp_path)) == [f"{tmp_path / name} {where}" for name, where in left.items()]
