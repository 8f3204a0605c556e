"""The manifest finds what is missing, differs, or was added, and reads nothing outside of its directory."""

from __future__ import annotations

import json
from pathlib import Path

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


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "inner/../../secret", "link"])
def test_names_cannot_lead_out_of_the_directory(directory: Path, name: str) -> None:
    (directory.parent / "secret").write_text("abc")
    (directory / "link").symlink_to(directory.parent / "secret")
    (directory / MANIFEST_FILE).write_text(json.dumps({"files": {name: {"size": 3, "sha256": SHA_ABC}}}))
    with pytest.raises(TfaipError, match=f"names '{name}', which is outside of"):
        verify_files(directory)


def test_a_manifest_of_another_form_is_damage(directory: Path, subtests: pytest.Subtests) -> None:
    for content, message in [
        ("", "cannot be read"),
        ("[]", "cannot be read: expected a JSON object, got list"),
        ("{}", "names no files"),
        ('{"files": ["weights"]}', "names no files"),
        ("[" * 100_000, "cannot be read"),
    ]:
        with subtests.test(message=message):
            (directory / MANIFEST_FILE).write_text(content)
            with pytest.raises(TfaipError, match=f"{directory}/{MANIFEST_FILE} {message}"):
                verify_files(directory)


def test_fields_of_a_wrong_type_are_damage(directory: Path, subtests: pytest.Subtests) -> None:
    for manifest, message in [
        ({"files": {"weights": 3}}, "gives 3 for 'weights', expected size and sha256"),
        ({"files": {"weights": {"size": -1, "sha256": SHA_ABC}}}, "for 'weights', expected size and sha256"),
        ({"files": {"weights": {"size": 3, "sha256": SHA_ABC, "more": 1}}}, "expected size and sha256"),
        ({"files": {}, "backend": ["jax"]}, r"gives \['jax'\] as backend, expected a name"),
        ({"files": {}, "versions": {"keras": 3}}, r"gives {'keras': 3} as versions"),
        ({"files": {"a\0b": {"size": 3, "sha256": SHA_ABC}}}, "which is outside of"),
        ({"files": {"a" * 10_000: {"size": 3, "sha256": SHA_ABC}}}, "aaa.* is missing"),
        ({"files": {"weights": "x" * 10_000}}, "gives 'xxx.* for 'weights', expected size"),
    ]:
        with subtests.test(message=message):
            (directory / MANIFEST_FILE).write_text(json.dumps(manifest))
            with pytest.raises(TfaipError, match=message) as caught:
                verify_files(directory)
            assert len(str(caught.value).replace(str(directory), "")) <= 300
