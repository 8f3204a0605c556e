"""Params of tfaip 1.2: their files, and their names in Python and on the command line."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Tuple  # noqa: UP035 (as 1.2 was written)

import pytest

from test.support.commands import REPOSITORY
from tfaip.compat.former import FormerDecoder
from tfaip.device import DeviceConfigParams
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, names as oldnames
from tfaip.params.resource import Resource
from tfaip.params.stored import from_dict, load_params
from tfaip.params.types import FunctionName
from tfaip.predict.params import LAVParams
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.scheduler import CosineDecayParams, ExponentialDecayParams, WarmupCosineDecayParams

DEFAULTS = json.loads((REPOSITORY / "test" / "data" / "former" / "defaults.json").read_text())


@pytest.fixture(autouse=True)
def _fresh_notices() -> None:
    oldnames.warn_removed.cache_clear()


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger("tfaip"), "propagate", True)
    return caplog


@pytest.mark.parametrize("stored", DEFAULTS, ids=lambda stored: stored["__cls__"].rpartition(":")[2])
def test_every_class_that_1_2_stored_is_read_with_all_its_fields(stored: dict[str, Any]) -> None:
    decoder = FormerDecoder()
    params = decoder.decode(stored, ParamsBase, "params")
    decoder.finish(params, "a dict")
    # All fields exist, by their own or another name, or the table says what takes their place.
    removed = {*oldnames.removed_fields(type(params))}
    removed |= {f"device.{name}" for name in oldnames.removed_fields(DeviceConfigParams)}
    assert [note for note in decoder.notes if note.split(": ")[0].removeprefix("params.") not in removed] == []
    current = {oldnames.renamed_fields(type(params)).get(name, name): value for name, value in stored.items()}
    written = params.to_dict()
    kept = {
        name: value for name, value in current.items() if name in written and not isinstance(value, dict | str | None)
    }
    assert {name: written[name] for name in kept} == kept
    assert from_dict(type(params), written) == params


def test_renamed_fields_work_in_every_form() -> None:
    with pytest.warns(DeprecationWarning, match="ExponentialDecayParams.lr_decay_rate is now called decay"):
        rate = ExponentialDecayParams(lr_decay_rate=0.5)  # type: ignore[call-arg]
    assert rate.decay == 0.5
    with pytest.warns(DeprecationWarning, match="lr_decay_rate is now called decay"):
        rate.lr_decay_rate = 0.25  # type: ignore[attr-defined]
    assert rate.decay == 0.25
    params = TutorialScenario.default_trainer_params()
    with pytest.warns(DeprecationWarning, match="--learning_rate.lr_decay_rate is now called --learning_rate.decay"):
        params.set_flags({"learning_rate": "ExponentialDecay", "learning_rate.lr_decay_rate": "0.125"})
    assert params["learning_rate.decay"] == 0.125


def test_removed_fields_give_one_notice_each(logged: pytest.LogCaptureFixture) -> None:
    params = TutorialScenario.default_trainer_params()
    before = params.to_dict()
    for _ in range(2):
        params.progbar_delta_time = 3  # type: ignore[attr-defined]
        CosineDecayParams(lr_decay_rate=0.5)  # type: ignore[call-arg]
        params.set_flags({"trainer.tf_cpp_min_log_level": "1"})
    assert params.to_dict() == before
    assert warnings_in(logged) == [
        f"{type(params).__name__}.progbar_delta_time was removed and has no effect: "
        "the progress bar chooses its own pace",
        "CosineDecayParams.lr_decay_rate was removed and has no effect: a cosine has no rate of its decay",
        "--trainer.tf_cpp_min_log_level was removed and has no effect: the environment variable TFAIP_LOG_LEVEL sets "
        "what is printed",
    ]
    with pytest.raises(AttributeError, match="progbar_delta_time was removed: the progress bar"):
        _ = params.progbar_delta_time  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="unknown flag --trainer.progbar_delta"):
        params.set_flags({"trainer.progbar_delta": "1"})


class OwnRate(ExponentialDecayParams):
    """Has a field with the old name."""

    lr_decay_rate: float = 0.75


def test_a_field_of_a_subclass_comes_before_an_old_name() -> None:
    assert OwnRate(lr_decay_rate=0.5) == OwnRate(lr_decay_rate=0.5, decay=0.99)
    assert WarmupCosineDecayParams(final_epochs=3).final_epochs == 3


class OldParams(ParamsBase):
    """As a client of 1.2 declared it."""

    window: Tuple[int, int, int] = (1, 1, 1)  # noqa: UP006
    is_wide: bool = False
    size: int = 1
    rate: float = 0.5
    pipeline: LAVParams = LAVParams()
    words: Resource | None = None
    tables: list[Resource] = []
    function: FunctionName = FunctionName("")
    anything: Any = None


def former(**values: Any) -> dict[str, Any]:
    return {"__cls__": f"{__name__}:OldParams", "tfaip_version": "1.2.6", **values}


def test_numbers_are_converted_without_loss_and_kept_otherwise(logged: pytest.LogCaptureFixture) -> None:
    values = former(window=[4, 1.0, 0.5], is_wide=0, size=None, rate=2, gone={"a": [1]}, pipeline={"silent": 1})
    params = from_dict(OldParams, values)
    assert (params.window, params.is_wide, params.size, params.rate) == ((4, 1.0, 0.5), False, None, 2.0)
    assert type(params.rate) is float
    assert params.pipeline.silent is True
    assert warnings_in(logged) == [
        "a dict was written by tfaip 1.2; not used, since it has no counterpart:\n"
        "  params.tfaip_version\n"
        "  params.gone\n"
        "  params.window, kept although it does not fit: [4, 1.0, 0.5]\n"
        "  params.size, kept although it does not fit: None"
    ]
    from_dict(OldParams, values)
    assert len(warnings_in(logged)) == 1


def test_values_of_the_toolkit_that_cannot_be_used_have_their_default(logged: pytest.LogCaptureFixture) -> None:
    pipeline = {"batch_size": 0, "limit": 7, "on_error": 3}
    params = from_dict(OldParams, former(pipeline={"pipeline": pipeline, "device": {"dist_strategy": "tpu"}}))
    assert (params.pipeline.pipeline.batch_size, params.pipeline.pipeline.limit) == (16, 7)
    assert params.pipeline.device.dist_strategy == "default"
    (message,) = warnings_in(logged)
    assert "params.pipeline.pipeline.batch_size is 0, expected at least 1, default instead" in message
    assert "params.pipeline.device.dist_strategy, default instead: " in message


def test_values_with_another_form_today_keep_their_meaning() -> None:
    stored = {"scenario": {"tfaip_version": "1.2.6"}, "early_stopping": {"lower_threshold": -1e100}}
    assert from_dict(TutorialScenario.trainer_params_cls(), stored).early_stopping.lower_threshold is None


def test_devices_of_1_2_have_no_effect(logged: pytest.LogCaptureFixture) -> None:
    device = {"dist_strategy": "central_storage", "gpu_auto_tune": True, "soft_device_placement": False}
    assert from_dict(OldParams, former(pipeline={"device": device})).pipeline.device == DeviceConfigParams()
    params = TutorialScenario.default_trainer_params()
    params.set_flags({f"device.{name}": str(value) for name, value in device.items()})
    assert params.device == DeviceConfigParams()
    found = sorted({line.partition(" was removed")[0] for line in warnings_in(logged) if "was removed" in line})
    assert found == ["--device.gpu_auto_tune", "--device.soft_device_placement", "dist_strategy central_storage"]
    (report,) = [line for line in warnings_in(logged) if line.startswith("a dict was written by tfaip 1.2")]
    assert "params.pipeline.device.gpu_auto_tune: the backend decides" in report


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"tfaip_version": None, "gone": 1}, "OldParams has no 'gone'"),
        ({"pipeline": {"__cls__": "os:system"}}, "'os:system' is refused"),
        ({"pipeline": {"__cls__": f"{__name__}:OldParams"}}, "is not a params class derived from LAVParams"),
        ({"words": "../words.txt"}, "params.words: resource '../words.txt' lies outside of "),
        ({"tables": ["/etc/passwd", "../words.txt"]}, "params.tables.1: resource '../words.txt' lies outside of "),
        ({"tables": "/etc/passwd"}, "params.tables: expected list.Resource., got '/etc/passwd'"),
        ({"function": "os:system "}, "params.function: expected module:function, got 'os:system '"),
        ({"anything": {"__cls__": "tfaip.scenario.scenariobase:LocalTrainerParams"}}, "expected a class that module"),
    ],
)
def test_names_of_files_and_of_code_stay_strict(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    stored = {name: value for name, value in former(**values).items() if name != "tfaip_version" or value}
    file.write_text(json.dumps(stored))
    with pytest.raises(UsageError, match=message):
        load_params(file, OldParams)
    file.write_text(json.dumps(former(words=None, tables=None)))
    assert (load_params(file, OldParams).words, load_params(file, OldParams).tables) == (None, None)
