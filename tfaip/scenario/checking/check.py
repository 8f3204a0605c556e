"""Check of a scenario: all findings, in the order of files and lines."""

from __future__ import annotations

from typing import Any

from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.pipeline.processor.params import DataProcessorParams
from tfaip.params.tree.nodes import nodes_of
from tfaip.scenario.checking.backendimports import find_backend_imports
from tfaip.scenario.checking.builtmodel import find_in_model
from tfaip.scenario.checking.changeddefaults import find_changed_defaults
from tfaip.scenario.checking.finding import Finding
from tfaip.scenario.checking.methods import find_uncalled
from tfaip.scenario.checking.oldnames import find_old_names
from tfaip.scenario.checking.parts import classes_of, own_bases
from tfaip.scenario.checking.processors import find_unpicklable
from tfaip.scenario.checking.sources import package_name, read_package


def check_scenario(scenario: Any, params: Any) -> list[Finding]:
    """Return what should be changed in the code of a scenario; the backend must have been imported.

    The files are those of its package.

    Args:
        scenario: class of the scenario.
        params: trainer params, which the model is built with.
    """
    package = package_name(scenario.__module__)
    sources = read_package(package)
    classes = own_bases(classes_of(scenario, params), package)
    findings = find_backend_imports(_modules_without_backend(scenario, params), package)
    findings += find_uncalled(classes, package, sources)
    findings += find_old_names(sources, params)
    findings += find_unpicklable(params)
    findings += find_changed_defaults(scenario, params, sources)
    findings += find_in_model(scenario, params.scenario)
    return sorted(dict.fromkeys(findings))


def _modules_without_backend(scenario: Any, params: Any) -> list[str]:
    """Return the modules that `--help` and data workers import: params, data, generators and processors."""
    modules = {scenario.__module__: None}
    for node in nodes_of(params):
        modules[type(node).__module__] = None
        if _runs_in_worker(node):
            modules[node.cls().__module__] = None
    return list(modules)


def _runs_in_worker(node: Any) -> bool:
    """Return True if a data worker builds the object that these params describe."""
    is_described = type(node) not in (DataBaseParams, DataGeneratorParams, DataProcessorParams)
    return is_described and isinstance(node, DataBaseParams | DataGeneratorParams | DataProcessorParams)
