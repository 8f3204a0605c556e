"""A logger whose package is installed without one that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaip.params.limits import FieldAdvice
from tfaip.trainer.loggers.logger import import_package


def test_a_package_that_cannot_be_imported_is_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "halfinstalled.py").write_text("import no_such_package_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(FieldAdvice, match="cannot be imported .No module named 'no_such_package_at_all'.: install it"):
        import_package("halfinstalled", "Half", {})
