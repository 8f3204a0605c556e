"""`tfaip-check-scenario SCENARIO`: tell what of the code of a scenario is old, ignored or slow."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import TfaipError, UsageError
from tfaip.scripts.common import command
from tfaip.scripts.train import open_scenario
from tfaip.util.text import shorten_text

if TYPE_CHECKING:
    from tfaip.scenario.checking.finding import Finding

PROG = "tfaip-check-scenario"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Tell what of the code of a scenario is old, ignored or slow, with file and line:

  uncalled-method        a method that overrides nothing and that nothing calls
  old-name               a name of tfaip 1.2
  backend-import         an import for which --help and the data workers wait
  unpicklable-processor  params of a processor or generator that no data worker can be given
  uncompiled-layer       a layer for which Keras runs the whole step uncompiled
  unknown-rank           a tensor without a rank, which losses and metrics of Keras 3 refuse
  changed-default        a default that differs from tfaip 1.2 and that the scenario does not set
  fails                  params or a model that cannot be built

SCENARIO is given as to tfaip-train, whose flags are taken, too. The files of its package are read,
and its model is built; no data are read, nothing is written.

  --json                 print a JSON list of findings (file, line, kind, text, advice)

The exit code is 0 without findings, 1 with findings, and 2 if the scenario cannot be loaded."""

_TEXT_LIMIT = 300


class FindingsError(TfaipError):
    """The end of a check that found something, which is printed already."""

    exit_code = 1


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Check the code of a scenario."""
    from dataclasses import asdict

    scenario = open_scenario(name)
    try:
        args = _parse(f"{PROG} {name}", scenario, flags)
    except UsageError:
        raise
    except Exception as error:  # code of the user
        findings = [_failure(error, scenario)]
        is_json = "--json" in flags
    else:
        findings, is_json = _check(scenario, args.trainer), args.json
    if is_json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        _print(scenario.__name__, findings)
    if findings:
        raise FindingsError(f"{len(findings)} findings")


def _parse(prog: str, scenario: Any, flags: Sequence[str]) -> Any:
    from tfaip.scripts.common.parser import TrainingParser

    parser = TrainingParser(prog, f"Check the code of {scenario.__name__}.", scenario)
    parser.add_option("--json", help="Print a JSON list of findings")
    return parser.parse(flags)


def _check(scenario: type, params: Any) -> list[Finding]:
    from tfaip.backend.selection import import_backend

    import_backend()
    from tfaip.scenario.checking.check import check_scenario

    return [shortened(finding) for finding in check_scenario(scenario, params)]


def _failure(error: Exception, scenario: type) -> Finding:
    from tfaip.scenario.checking.finding import Kind, finding_of_error

    advice = "nothing else can be checked before"
    return shortened(finding_of_error(error, Kind.FAILS, scenario, "the params of the training fail", advice))


def shortened(finding: Finding) -> Finding:
    """Return a finding with the path of its file from the working directory, if it is below that."""
    from dataclasses import replace

    path = Path(finding.file)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return replace(finding, file=str(path), text=shorten_text(finding.text, _TEXT_LIMIT))


def _print(name: str, findings: Sequence[Finding]) -> None:
    for finding in findings:
        print(finding)
    counts = Counter(finding.kind.value for finding in findings)
    listed = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    print(f"{name}: {listed or 'nothing found'}")


if __name__ == "__main__":
    sys.exit(main())
