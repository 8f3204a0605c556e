"""Tables of results."""

from __future__ import annotations

import numpy as np
import pytest

from tfaip.scripts.common.command import print_results


def test_every_value_takes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_results({"value": {"acc": 0.5, "confusion": np.arange(6).reshape(2, 3), "text": "a\nb"}})
    assert capsys.readouterr().out.splitlines() == [
        "                       value",
        "acc                      0.5",
        "confusion  [[0 1 2] [3 4 5]]",
        "text                     a b",
    ]
