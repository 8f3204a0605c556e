"""Files that travel with a model."""

from __future__ import annotations

import shutil
from dataclasses import field
from pathlib import Path

import pytest

from tfaip.errors import UsageError
from tfaip.params import ParamsBase
from tfaip.params.commandline import ParamsParser
from tfaip.params.resource import Resource, copy_resources
from tfaip.params.stored import load_params, save_params


class Inner(ParamsBase):
    codec: Resource | None = None


class WithResources(ParamsBase):
    words: Resource | None = None
    files: list[Resource] = field(default_factory=list)
    by_name: dict[str, Resource] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)


def _file(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_export_is_complete_and_can_be_moved(tmp_path: Path) -> None:
    one, two = _file(tmp_path / "a/words.txt", "one"), _file(tmp_path / "b/words.txt", "two")
    params = WithResources(Resource(one), [Resource(two), Resource(one)], {"k": Resource(two)}, Inner(Resource(one)))
    export = tmp_path / "export"
    copied = copy_resources(params, export)
    save_params(export / "params.json", copied)
    # Equal names do not collide, equal files are copied once.
    assert {p.name: p.read_text() for p in (export / "resources").iterdir()} == {
        "words.txt": "one",
        "words_1.txt": "two",
    }
    assert '"words": "resources/words.txt"' in (export / "params.json").read_text()
    assert params.words == Resource(one)

    moved = Path(shutil.move(export, tmp_path / "elsewhere"))
    loaded = load_params(moved / "params.json", WithResources)
    assert loaded.words == loaded.files[1] == loaded.inner.codec == Resource(moved / "resources/words.txt")
    assert loaded.files[0] == loaded.by_name["k"]
    assert Path(loaded.files[0]).read_text() == "two"


def test_resources_elsewhere_stay_absolute(tmp_path: Path) -> None:
    words = _file(tmp_path / "data/words.txt", "one")
    run = tmp_path / "run"
    run.mkdir()
    save_params(run / "params.json", WithResources(Resource(words)))
    assert load_params(run / "params.json", WithResources).words == Resource(words)


def test_copying_into_the_same_directory_again(tmp_path: Path) -> None:
    words = _file(tmp_path / "words.txt", "one")
    once = copy_resources(WithResources(Resource(words)), tmp_path / "export")
    assert copy_resources(once, tmp_path / "export") == once


def test_relative_paths_are_made_absolute_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    parser = ParamsParser("x")
    parser.add_params("p", WithResources)
    params = parser.parse(["--p.words", "words.txt", "--p.files", "a", "b"]).p
    assert params.words == Resource(tmp_path / "words.txt")
    assert [resource.path for resource in params.files] == [tmp_path / "a", tmp_path / "b"]
    _file(tmp_path / "words.txt", "hello")
    with open(params.words) as file:
        assert file.read() == "hello"


@pytest.mark.parametrize("text", ["../secret.txt", "resources/../../secret.txt", "link.txt", ".."])
def test_stored_paths_cannot_lead_out_of_the_directory(tmp_path: Path, text: str) -> None:
    secret = _file(tmp_path / "secret.txt", "secret")
    export = tmp_path / "export"
    export.mkdir()
    (export / "link.txt").symlink_to(secret)
    (export / "params.json").write_text(f'{{"words": "{text}"}}')
    with pytest.raises(UsageError, match=r"params\.words: resource .* lies outside of"):
        load_params(export / "params.json", WithResources)


def test_a_resource_that_is_no_file_is_an_error(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in ["missing.txt", "."]:
        with subtests.test(name=name), pytest.raises(UsageError, match="is not a file"):
            copy_resources(WithResources(Resource(tmp_path / name)), tmp_path / "export")
