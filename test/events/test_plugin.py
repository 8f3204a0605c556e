"""The filter of TensorFlow's warnings holds back those of directories alone; for the server see test/trainer."""

import logging
from pathlib import Path

from tensorboard.plugins.base_plugin import TBContext

from tfaip.events.plugin import QuietProjector


def test_only_warnings_of_directories_are_held_back(tmp_path: Path, caplog, monkeypatch) -> None:
    import tensorflow as tf

    log = logging.getLogger("tensorflow")
    monkeypatch.setattr(log, "propagate", True)
    monkeypatch.setattr(log, "filters", log.filters[:])
    (tmp_path / "run" / "checkpoint").mkdir(parents=True)
    (tmp_path / "checkpoint").write_text("no such file")

    def look() -> None:
        for place in (tmp_path / "run", tmp_path):
            tf.train.get_checkpoint_state(str(place))
        log.warning("anything else")

    look()
    before = caplog.messages
    assert [str(tmp_path / "run") in message for message in before] == [True, True, False, False, False]
    caplog.clear()
    for _ in range(2):
        QuietProjector().load(TBContext())
    look()
    assert caplog.messages == before[2:]
