"""The module search path: the only place that changes `sys.path`.

Python puts the working directory first when it is started with `-m`. That directory may be the one of an untrusted
model, so a command removes it before it imports anything, and adds it again where its own rule says so.
"""

# Only modules that Python has loaded at this point, and no `__future__`: another one could be a file of that directory.
import os
import sys

_SCRIPTS = "tfaip.scripts."
_STORED = ("trainer_params.json", "scenario_params.json")


def leave_start_directory() -> None:
    """Remove the start directory of a command from the search path, unless the user named it.

    It is there because of `python -m`, or of an empty entry in PYTHONPATH. The directory of the commands is removed
    too, which Python adds when one is run as a file: its modules have short names. Other programs are not changed.
    """
    if not _is_command():
        return
    here, package = os.getcwd(), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    scripts, named = os.path.join(package, "scripts"), _named_by_user()
    if sys.argv[0] == "-m" and not sys.flags.safe_path and _same(sys.path[0], here):
        del sys.path[0]
    sys.path[:] = [p for p in sys.path if not _same(p, scripts) and (not _same(p, here) or _real(p) in named)]
    if _same(os.path.dirname(package), here):
        # tfaip itself is run from here; data workers must not find another installation.
        add_directory(here, first=True)


def add_working_directory(first: bool) -> bool:
    """Let modules be imported from the working directory."""
    here = os.getcwd()
    if not first and is_stored(here):
        return False
    add_directory(here, first)
    return True


def add_directory(directory: str, first: bool) -> None:
    """Add a directory to the search path, before or after all others, unless it is there."""
    if not any(_same(entry, directory) for entry in sys.path):
        sys.path.insert(0 if first else len(sys.path), directory)


def is_stored(directory: str) -> bool:
    """Return True if a directory is that of a model or of a run, or inside one."""
    path = _real(directory)
    while True:
        if any(os.path.lexists(os.path.join(path, name)) for name in _STORED):
            return True
        parent = os.path.dirname(path)
        if parent == path:
            return False
        path = parent


def _is_command() -> bool:
    program = sys.argv[0] if getattr(sys, "argv", None) else ""
    if program == "-m":  # until Python has found the module
        return any(word.removeprefix("-m").startswith(_SCRIPTS) for word in sys.orig_argv)
    in_scripts = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scripts")
    return os.path.basename(program).startswith("tfaip-") or _same(os.path.dirname(program) or ".", in_scripts)


def _named_by_user() -> set[str]:
    text = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    return {_real(entry) for entry in text.split(os.pathsep) if entry}


def _same(entry: str, directory: str) -> bool:
    return _real(entry) == _real(directory)


def _real(entry: str) -> str:
    return os.path.realpath(entry or os.curdir)
