"""The manifest finds what is missing, differs, or was added, and reads nothing outside of its directory."""

import json
from pathlib import Path
from typing import Any

import pytest

from tfaip.errors import TfaipError
from tfaip.util.manifest import MANIFEST_FILE, read_manifest, verify_files, write_manifest

# SHA-256 of "abc", the test vector of FIPS 180-4.
SHA_ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "model" / "inner").mkdir(parents=True)
    (tmp_path / "model" / "weights").write_text("abc")
    (tmp_path / "model" / "inner" / "words").write_text("")
    write_manifest(tmp_path / "model", {"backend": "jax"})
    return tmp_path / "model"


def test_content(directory: Path) -> None:
    manifest = read_manifest(directory)
    assert manifest["files"]["weights"] == {"size": 3, "sha256": SHA_ABC}
    assert (sorted(manifest["files"]), manifest["backend"]) == (["inner/words", "weights"], "jax")
    verify_files(directory)
    # Written again, it does not describe itself.
    write_manifest(directory, {"backend": "jax"})
    assert read_manifest(directory) == manifest


def test_every_kind_of_damage_is_named(directory: Path) -> None:
    (directory / "extra").touch()
    with pytest.raises(TfaipError, match=f"{directory}/extra is not in the manifest of"):
        verify_files(directory)
    verify_files(directory, ["weights"])
    with pytest.raises(TfaipError, match="extra differs from its manifest"):
        verify_files(directory, ["extra"])
    (directory / "weights").write_text("abd")
    verify_files(directory, ["inner/words"])
    for names in (None, ["weights"]):
        with pytest.raises(TfaipError, match=f"{directory}/weights differs from its manifest"):
            verify_files(directory, names)
    (directory / "inner" / "words").unlink()
    with pytest.raises(TfaipError, match=f"{directory}/inner/words is missing"):
        verify_files(directory)


FACTS = {"size": 3, "sha256": SHA_ABC}


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        *[
            ({"files": {name: FACTS}}, f"names '{name}', which is outside of")
            for name in ("../secret", "/etc/hostname", "inner/../../secret", "link")
        ],
        ("", "manifest.json: broken JSON"),
        ({}, "manifest.json is damaged: expected files, backend and versions"),
        ({"files": {"weights": {**FACTS, "more": 1}}}, "damaged: expected size and sha256 of 'weights'"),
        ({"files": {"weights": {**FACTS, "size": -1}}}, "weights differs from its manifest"),
        ({"files": {}, "backend": ["jax"]}, "manifest.json is damaged"),
        ({"files": {"a\0b": FACTS}}, "which is outside of"),
        ({"files": {"a" * 10_000: FACTS}}, "aaa.* is missing"),
    ],
)
def test_a_manifest_of_another_form_is_damage(directory: Path, manifest: Any, message: str) -> None:
    (directory.parent / "secret").write_text("abc")
    (directory / "link").symlink_to(directory.parent / "secret")
    (directory / MANIFEST_FILE).write_text(manifest if isinstance(manifest, str) else json.dumps(manifest))
    with pytest.raises(TfaipError, match=message) as caught:
        verify_files(directory)
    assert len(str(caught.value).replace(str(directory), "")) <= 300
