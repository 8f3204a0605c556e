"""Models of tfaip 1.2 are found by any of their paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaip.components.modelfiles import FormerModel, find_former_model


def test_a_saved_model_that_is_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve" / "saved_model.pb").touch()
    (tmp_path / "scenario_params.json").write_text('{"tfaip_version": "1.2.6"}')
    monkeypatch.chdir(tmp_path / "serve")
    expected = FormerModel(tmp_path / "scenario_params.json", None, tmp_path / "serve")
    assert find_former_model(Path()) == expected
    monkeypatch.chdir(tmp_path)
    assert find_former_model(Path("serve")) == expected
