"""From what a user types to a scenario class, and what cannot be loaded."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tfaip.components.loading import import_root, load_scenario, load_trusted_scenario
from tfaip.errors import UsageError
from tfaip.scenario.scenariobase import ScenarioBase

IMPORT = "from tfaip.scenario.scenariobase import ScenarioBase\n"
ONE = IMPORT + "class Zoo(ScenarioBase):\n    pass\n"
TWO = IMPORT + "class Lions(ScenarioBase):\n    pass\nclass Tigers(ScenarioBase):\n    pass\n"
FULL = "tfaip.scenario.tutorial.full"
Write = Callable[[dict[str, str]], None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write files below the working directory; what is imported from there is forgotten when the test ends."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    before = set(sys.modules)

    def write_files(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    yield write_files
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def loaded(name: str) -> str:
    return load_scenario(name).scenario_id()


@pytest.mark.parametrize(
    "name",
    [
        "tf_zoo",
        "tf_zoo.scenario",
        "tf_zoo:Zoo",
        "tf_zoo.scenario:Zoo",
        "tf_zoo/scenario.py",
        "./tf_zoo/scenario.py:Zoo",
    ],
)
def test_every_spelling(name: str, write: Write, tmp_path: Path) -> None:
    write({"tf_zoo/__init__.py": "", "tf_zoo/scenario.py": ONE})
    if name == "tf_zoo:Zoo":
        write({"tf_zoo/__init__.py": "from tf_zoo.scenario import Zoo\n"})
    assert loaded(name.format(cwd=tmp_path.name)) == "tf_zoo.scenario:Zoo"


def test_files_and_directories(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write({"tf_single.py": ONE, "tf_plain/scenario.py": ONE})
    assert loaded("tf_single") == loaded("tf_single.py") == loaded("./tf_single.py:Zoo") == "tf_single:Zoo"
    assert loaded("tf_plain") == loaded("./tf_plain") == "tf_plain.scenario:Zoo"  # without __init__
    # Modules of the package find each other; absolute paths from anywhere, and the directory itself.
    relative = "from .names import NAME\n" + ONE + "Zoo.name = NAME\n"
    write({"deep/tf_zoo/__init__.py": "", "deep/tf_zoo/sub/__init__.py": "", "deep/tf_zoo/sub/scenario.py": relative})
    write({"deep/tf_zoo/sub/names.py": "NAME = 'Berlin'"})
    assert load_scenario("deep/tf_zoo/sub").name == "Berlin"  # type: ignore[attr-defined]
    monkeypatch.chdir("/")
    assert loaded(f"{tmp_path}/deep/tf_zoo/sub/scenario.py:Zoo") == "tf_zoo.sub.scenario:Zoo"
    monkeypatch.chdir(tmp_path / "deep/tf_zoo/sub")
    assert loaded(".") == "tf_zoo.sub.scenario:Zoo"
    for kind, name in (("min", "MinScenario"), ("full", "TutorialScenario")):
        assert loaded(f"tfaip.scenario.tutorial.{kind}") == f"tfaip.scenario.tutorial.{kind}.scenario:{name}"


def test_bases_imports_private_classes_and_other_names_are_no_choice(write: Write) -> None:
    code = (
        "from tf_other import Foreign\n" + ONE + "class Better(Zoo):\n    pass\nclass _Draft(ScenarioBase):\n    pass\n"
    )
    write(
        {"tf_other.py": IMPORT + "class Foreign(ScenarioBase):\n    pass\n", "tf_zoo.py": code + "Default = Better\n"}
    )
    assert loaded("tf_zoo") == "tf_zoo:Better"
    assert loaded("tf_zoo:Zoo") == "tf_zoo:Zoo"
    assert loaded("tf_zoo:Foreign") == "tf_other:Foreign"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tf_zo", "no module named 'tf_zo'; did you mean tf_zoo?"),
        ("wild_cats.scenario", "no module named 'wild_cats.scenario'"),  # nothing is below a module
        ("wild_cats:Lion", "module wild_cats has no scenario named 'Lion'; it defines Lions, Tigers"),
        ("tfaip.scenario.tutorial.ful", "no module named 'tfaip.scenario.tutorial.ful'; did you mean " + FULL + "?"),
        ("opcodes", "no module named 'opcodes'"),  # nobody means a module of Python
        ("wild_cats", "module wild_cats defines several scenarios, name one: wild_cats:Lions, wild_cats:Tigers"),
        ("tf_nothing", "module tf_nothing defines no scenario: expected a subclass of ScenarioBase"),
        ("tf_empty", "no module named 'tf_empty.scenario'"),
        ("tf_class:Zoo", "module tf_class has no scenario named 'Zoo'; it defines none"),
        ("./data", "no scenario at {cwd}/data: expected a Python file, or a directory with scenario.py"),
    ],
)
def test_what_cannot_be_loaded(name: str, message: str, write: Write, tmp_path: Path) -> None:
    write({"tf_zoo/__init__.py": "", "tf_zoo/scenario.py": ONE, "wild_cats.py": TWO, "data/readme.txt": ""})
    write({"tf_nothing.py": "x = 1\n", "tf_empty/__init__.py": "", "tf_class.py": "class Zoo:\n    pass\n"})
    with pytest.raises(UsageError) as caught:
        load_scenario(name)
    assert str(caught.value) == message.format(cwd=tmp_path)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import tf_missing_library", "ModuleNotFoundError: No module named 'tf_missing_library'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_a_module_that_fails_to_import_says_why(code: str, message: str, write: Write) -> None:
    write({"tf_broken/__init__.py": "", "tf_broken/scenario.py": code})
    with pytest.raises(UsageError, match=f"^scenario module tf_broken.scenario fails to import: {message}"):
        load_scenario("./tf_broken")


def test_a_trusted_scenario_is_named_in_the_log(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    write({"tf_zoo.py": ONE})
    with caplog.at_level(logging.INFO, logger="tfaip"):
        assert load_trusted_scenario("tf_zoo:Zoo").scenario_id() == "tf_zoo:Zoo"
        assert load_trusted_scenario("tfaip.scenario.tutorial.min.scenario:MinScenario")
    assert caplog.messages == ["importing the package tf_zoo: the stored params say that it holds the scenario"]


def test_where_a_package_was_imported_from(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write({"a b/tf_zoo/__init__.py": "", "a b/tf_zoo/scenario.py": ONE, "tf_cages.py": ONE})
    for name, root in (("a b/tf_zoo", f"{tmp_path}/a b"), ("tf_cages", f"{tmp_path}"), (FULL, None)):
        assert import_root(load_scenario(name)) == root
    own: Any = type("Zoo", (ScenarioBase,), {"__module__": "tf_notebook"})
    assert import_root(own) is None
    # The script itself may load its class.
    monkeypatch.setattr(sys.modules["__main__"], "Zoo", own, raising=False)
    assert load_trusted_scenario("__main__:Zoo") is own


STORED = [*("tf_zoo", "tf_zoo:", ":Zoo", "../tf_zoo:Zoo", "/zoo/x.py:Zoo", "tf_zoo:Zoo()", "tf zoo:Zoo", "")]
LIBRARY = ["os:system", "subprocess:Popen", "antigravity:x", "xml.dom:Node"]


@pytest.mark.parametrize(
    ("scenario_id", "message"),
    [
        *((name, "is not of the form module:Class") for name in [*STORED, "x" * 10_000 + ":Zoo"]),
        *((name, "names a module of the standard library: not imported") for name in LIBRARY),
        *((name, f"'{name}' names a class of the script ") for name in ("__main__:main", "__main__.z:Z")),
        ("tf_class:Zoo", "module tf_class has no scenario named 'Zoo'"),
        ("tf_lost.scenario:Zoo", "; put the directory that holds tf_lost on the PYTHONPATH"),
    ],
    ids=lambda text: text[:20],
)
def test_stored_ids_that_are_refused(scenario_id: str, message: str, write: Write) -> None:
    write({"tf_zoo.py": "raise AssertionError('imported')", "tf_class.py": "class Zoo:\n    pass\n"})
    before = {*sys.modules, "tf_class"}
    with pytest.raises(UsageError) as caught:
        load_trusted_scenario(scenario_id)
    assert message in str(caught.value)
    assert len(str(caught.value)) <= 300
    assert set(sys.modules) <= before
