"""`tfaip-new NAME`: write a scenario to start from."""

import keyword
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import tfaip
from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.util.files import commit_directory
from tfaip.util.text import shorten

PROG = "tfaip-new"
# Examples -> their package.
_KINDS = {"template": "my_scenario"} | {name: name for name in ("wine", "tabular", "images", "lines", "text")}
USAGE = f"""usage: {PROG} NAME [--like EXAMPLE]

Write a scenario to start from: a directory NAME with a README, the package NAME, and a test. It can
be trained at once, by the commands in its README.

  --like EXAMPLE  what it is a copy of (default: template)
                    template  random points; the smallest complete scenario
                    wine      arrays: a keras.Sequential in 25 lines
                    tabular   rows of a CSV file, which are standardised
                    images    a folder of images with a directory for each class
                    lines     images of text, read with CTC
                    text      a tag for each word, with a vocabulary"""

_SHELL_BLOCK = re.compile(r"^```shell\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@command.entry_point(USAGE, "name", choices={"--like": list(_KINDS)})
def main(name: str, flags: list[str]) -> None:
    """Write a scenario."""
    from tfaip.scripts.common.parser import CommandParser

    parser = CommandParser(PROG, "Write a scenario to start from.")
    parser.add_option("--like", type=str, default="template", help="Example to copy")
    args = parser.parse(flags)
    if args.like not in _KINDS:
        raise UsageError(f"--like is {shorten(args.like)}, expected one of {', '.join(_KINDS)}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(f"the name is {shorten(name)}, expected that of a package: small letters, digits and _")
    if Path(name).exists() or Path(name).is_symlink():
        raise UsageError(f"{name} exists: choose another name")
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise UsageError(f"{name} is already the name of an installed package: choose another name")
    files = dict(_files(args.like, name))
    with commit_directory(Path(name)) as directory:
        for path, text in files.items():
            target = directory / path
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8")
    commands = _SHELL_BLOCK.search(files["README.md"])
    print(f"wrote {', '.join(f'{name}/{path}' for path in files)}\n\nnext:\n  cd {name}")
    for line in commands[1].splitlines() if commands else []:
        print(f"  {line}")


def _files(kind: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each file of the new directory, and its text: README, package, and the files named there."""
    package, root = _KINDS[kind], Path(tfaip.__file__).parent
    # In an installed package within it, in a checkout beside it.
    example = next(path for path in (root / "examples" / kind, root.parent / "examples" / kind) if path.is_dir())
    readme = (example / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    yield "README.md", _renamed(readme, package, name)
    named = [path for path in sorted(example.glob("*.py")) if f"`{path.name}`" in readme]
    for path in [*sorted((example / package).glob("*.py")), *named]:
        target = path.relative_to(example).as_posix()
        yield _renamed(target, package, name), _renamed(path.read_text(encoding="utf-8"), package, name)


def _renamed(text: str, package: str, name: str) -> str:
    """Return a file or a path of an example with the name of the new package."""
    import_of, path = rf"^from (?={package}\.)", rf"(^|`|runs/)(?={package}/)"
    words = rf"(tfaip-train |runs/)(?={package}\b)|test_(?={package}\b)"
    text = re.sub(rf"({import_of}|{path}|{words}){package}", rf"\g<1>{name}", text, flags=re.MULTILINE)
    scenario = "".join(word.capitalize() for word in name.split("_")) + "Scenario"
    return re.sub(r"\b(My|Wine|Table|Image|Line|Text)Scenario\b", scenario, text)


if __name__ == "__main__":
    sys.exit(main())
