"""Params of the objects of Keras: writes the modules of `tfaip/model/keras_objects` from the installed Keras.

    python tools/keras_objects.py            # write them again
    python tools/keras_objects.py --check    # fail if Keras has other names, arguments or defaults (a test does it)

Types and help texts of the arguments are in `ARGUMENTS`, since signatures of Keras do not have them. An argument that
is not listed there is an error: add it.
"""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

TARGET = Path(__file__).resolve().parent.parent / "tfaip" / "model" / "keras_objects"
SUMMARY_LENGTH = 90


@dataclass(frozen=True)
class Kind:
    """A module of Keras with objects of one kind."""

    module: str
    base: str
    article: str
    functions: bool = False


KINDS = [
    Kind("initializers", "Initializer", "An initializer"),
    Kind("regularizers", "Regularizer", "A regularizer"),
    Kind("constraints", "Constraint", "A constraint"),
    Kind("activations", "Activation", "An activation function", functions=True),
    Kind("losses", "Loss", "A loss", functions=True),
    Kind("metrics", "Metric", "A metric", functions=True),
]
# Metrics of something else than a target and an output, and functions that are no activations.
EXCLUDED = {"Mean", "Sum", "MeanMetricWrapper", "get", "serialize", "deserialize"}
LEFT_OUT = {"dtype"}
SHARE = "low=0, high=1"
POSITIVE = "above=0"

# Argument -> type, help text, limits; `Class.argument` where it differs.
ARGUMENTS: dict[str, tuple[str, str, str]] = {
    "alpha": ("float", "Factor of negative values", ""),
    "apply_class_balancing": ("bool", "Weigh the classes by alpha and 1 - alpha", ""),
    "approximate": ("bool", "Use the approximation with tanh", ""),
    "average": (
        'Literal["micro", "macro", "weighted"] | None',
        "Average over the classes (None: one value per class)",
        "",
    ),
    "axis": ("int", "Axis of the features", ""),
    "b": ("float", "Smoothness", ""),
    "beta": ("float", "Weight of the recall against the precision", POSITIVE),
    "class_aggregation": (
        'Literal["uniform_average", "variance_weighted_average"] | None',
        "Average over the outputs",
        "",
    ),
    "class_id": ("int | None", "Class that is evaluated (None: all)", ""),
    "curve": ('Literal["ROC", "PR"]', "Curve below which the area is taken", ""),
    "default_value": ("float", "Value below the threshold", ""),
    "delta": ("float", "Error at which the loss becomes linear", POSITIVE),
    "distribution": ('Literal["truncated_normal", "untruncated_normal", "uniform"]', "Distribution of the values", ""),
    "factor": ("float", "Factor of the penalty", "low=0"),
    "from_logits": ("bool", "The outputs are logits, not probabilities", ""),
    "from_sorted_ids": ("bool", "The outputs are sorted classes, not scores", ""),
    "gain": ("float", "Factor of the matrix", ""),
    "gamma": ("float", "Exponent that focuses on difficult samples", ""),
    "ignore_class": ("int | None", "Class of targets that do not count, e.g. of padding", ""),
    "input_axes": ("list[int] | None", "Axes of the kernel that count as inputs (None: all but the last)", ""),
    "k": ("int", "Number of best classes among which the target must be", "low=1"),
    "l1": ("float", "Factor of the sum of absolute values", "low=0"),
    "l2": ("float", "Factor of the sum of squares", "low=0"),
    "label_smoothing": ("float", "Share of a target that is spread over all classes", SHARE),
    "label_weights": ("list[float] | None", "Weight of each label, if multi_label", ""),
    "margin": ("float", "Margin between similar and dissimilar samples", ""),
    "max_value": ("float", "Largest norm", "low=0"),
    "maxval": ("float", "Upper end", "finite=True"),
    "mean": ("float", "Mean", "finite=True"),
    "min_value": ("float", "Smallest norm", "low=0"),
    "minval": ("float", "Lower end", "finite=True"),
    "mode": ('Literal["fan_in", "fan_out", "fan_avg"]', "Number of units that the scale is divided by", ""),
    "multi_label": ("bool", "Evaluate each label alone, and average", ""),
    "name": ("str | None", "Name in the log (None: that of Keras)", ""),
    "negative_slope": ("float", "Factor of negative values", ""),
    "num_classes": ("int", "Number of classes", "low=1"),
    "num_labels": ("int | None", "Number of labels, if multi_label", ""),
    "num_regressors": ("int", "Number of explanatory variables (0: the score is not adjusted)", "low=0"),
    "num_thresholds": ("int", "Number of thresholds of the curve", "low=1"),
    "output_axes": ("list[int] | None", "Axes of the kernel that count as outputs (None: the last one)", ""),
    "periodic": ("bool", "The window is periodic", ""),
    "precision": ("float", "Precision at which the recall is taken", SHARE),
    "q": ("float", "Exponent, from 0 (crossentropy) to 1 (absolute error)", "above=0, below=1"),
    "rate": ("float", "Share of the way to the allowed norm per update", SHARE),
    "recall": ("float", "Recall at which the precision is taken", SHARE),
    "reduction": ("Reduction", "How the values of a batch become one", ""),
    "remove_diagonal": ("bool", "Do not compare a sample with itself", ""),
    "scale": ("float", "Factor of the variance", POSITIVE),
    "scaling": ('Literal["density", "spectrum"] | None', "Scaling of the transform", ""),
    "seed": ("int | None", "Seed (None: drawn, so that equal layers differ)", ""),
    "sensitivity": ("float", "Sensitivity at which the specificity is taken", SHARE),
    "side": ('Literal["real", "imag"]', "Part of the transform", ""),
    "sparse_y_pred": ("bool", "The outputs are classes, not scores", ""),
    "sparse_y_true": ("bool", "The targets are classes, not one-hot vectors", ""),
    "specificity": ("float", "Specificity at which the sensitivity is taken", SHARE),
    "stddev": ("float", "Standard deviation", "low=0"),
    "summation_method": ('Literal["interpolation", "minoring", "majoring"]', "Method of the integration", ""),
    "target_class_ids": ("list[int]", "Classes that are evaluated", ""),
    "threshold": ("float", "Threshold", ""),
    "thresholds": ("float | None", "Threshold of a positive output (None: that of Keras)", SHARE),
    "top_k": ("int | None", "Number of best outputs that count as positive (None: use the threshold)", "low=1"),
    "value": ("float", "The value", "finite=True"),
    "window": ("str | None", "Name of the window, as hann or hamming", ""),
    "AUC.thresholds": ("list[float] | None", "Thresholds of the curve (None: num_thresholds of equal distance)", ""),
    "BinaryFocalCrossentropy.alpha": ("float", "Weight of class 1, if apply_class_balancing", SHARE),
    "CategoricalFocalCrossentropy.alpha": ("float", "Weight of all classes", ""),
    "Circle.gamma": ("float", "Factor of the similarities", POSITIVE),
    "Dice.axis": ("list[int] | None", "Axes that are summed (None: all)", ""),
    "F1Score.threshold": ("float | None", "Threshold of a positive output (None: the largest one)", ""),
    "FBetaScore.threshold": ("float | None", "Threshold of a positive output (None: the largest one)", ""),
    "OrthogonalRegularizer.mode": ('Literal["rows", "columns"]', "What is to be orthogonal", ""),
    "Tversky.alpha": ("float", "Weight of false positives", "low=0"),
    "Tversky.axis": ("list[int] | None", "Axes that are summed (None: all)", ""),
    "Tversky.beta": ("float", "Weight of false negatives", "low=0"),
    "relu.max_value": ("float | None", "Largest result (None: no limit)", "low=0"),
    "relu.threshold": ("float", "Values up to here become 0", ""),
}

HEADER = '''"""{title} of Keras as params; written by `tools/keras_objects.py`. Needs no backend."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from tfaip.model.keras_objects.base import CustomObject, {parent}
from tfaip.params.options import option


class {base}({parent}, kind="{kind}", functions={functions}):
    """{article} of Keras, or one of the user."""


class Custom{base}(CustomObject, {base}):
    """{article} that is not one of Keras."""
'''
# What the modules of single kinds have before the classes of Keras.
LOSSES = """

Reduction: TypeAlias = Literal["sum_over_batch_size", "sum", "mean", "mean_with_sample_weight"]
"""
METRICS = '''

class AccuracyByShape(Metric, names=("accuracy", "acc")):
    """Accuracy of classes, categories or yes and no, as the shapes of target and output tell."""

    name: str = option("accuracy", "Name in the log")

    @staticmethod
    def cls() -> Any:
        """Raise: only the model knows the shapes."""
        raise TypeError("only a model makes it, which knows the shapes")
'''
FURTHER = {"Loss": LOSSES, "Metric": METRICS}


def objects_of(kind: Kind) -> dict[str, Any]:
    """Return the objects of a module by name; functions for activations, else classes."""
    module = getattr(keras, kind.module)
    found = {}
    for name, value in sorted(vars(module).items()):
        if getattr(value, "__name__", None) != name or name in EXCLUDED:
            continue  # a second name
        if kind.base == "Activation":
            is_object = inspect.isfunction(value)
        else:
            base = getattr(module, kind.base)
            is_object = inspect.isclass(value) and issubclass(value, base) and value is not base
        if is_object:
            found[name] = value
    return found


def other_names(kind: Kind, objects: dict[str, Any]) -> dict[str, list[str]]:
    """Return for each object the further names by which `keras.*.get` knows it."""
    plain = {name.lower().replace("_", ""): name for name in objects}
    names: dict[str, list[str]] = {name: [] for name in objects}
    for name, value in importlib.import_module(f"keras.src.{kind.module}").ALL_OBJECTS_DICT.items():
        owner = plain.get(value.__name__.lower().replace("_", ""))
        is_accuracy = kind.base == "Metric" and name == "accuracy"  # of `compile`: as the shapes tell
        if owner is not None and name != owner and not is_accuracy:
            names[owner].append(name)
    return {name: sorted(found) for name, found in names.items()}


def class_name(kind: Kind, name: str) -> str:
    """Return the name of the params class: of a function in camel case."""
    return "".join(map(str.capitalize, name.split("_"))) if kind.base == "Activation" else name


def arguments_of(kind: Kind, value: Any) -> Iterator[inspect.Parameter]:
    """Yield the arguments that are fields."""
    parameters = list(inspect.signature(value).parameters.values())
    for parameter in parameters[1:] if kind.base == "Activation" else parameters:
        is_variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        is_name = parameter.name == "name" and kind.base != "Metric"
        if not is_variable and not is_name and parameter.name not in LEFT_OUT:
            yield parameter


def field_line(owner: str, parameter: inspect.Parameter) -> str:
    """Return the declaration of a field."""
    declared, text, limits = ARGUMENTS.get(f"{owner}.{parameter.name}") or ARGUMENTS[parameter.name]
    default = parameter.default
    given = [f'"{text}"']
    if isinstance(default, tuple):
        default = list(default)
    elif declared.startswith("float") and isinstance(default, int):
        default = float(default)
    if default is parameter.empty:
        given = [f'help="{text}"']
    else:
        given.insert(0, repr(default))
    if limits:
        given.append(limits)
    return f"    {parameter.name}: {declared} = option({', '.join(given)})"


def class_lines(kind: Kind, name: str, value: Any, names: list[str]) -> Iterator[str]:
    """Yield the lines of a class."""
    names = [name, *names] if kind.base == "Activation" else names
    known = f", names={tuple(names)}" if names else ""
    yield from ("", "")
    yield f'class {class_name(kind, name)}({kind.base}, cls="keras.{kind.module}:{name}"{known}):'
    summary = (inspect.getdoc(value) or name).partition("\n\n")[0].replace("\n", " ").replace("`", "")
    summary = summary.partition(". ")[0].rstrip(".") + "."
    yield f'    """{textwrap.shorten(summary, SUMMARY_LENGTH, placeholder=" ...")}"""'
    arguments = list(arguments_of(kind, value))
    if arguments:
        yield ""
    for parameter in arguments:
        yield field_line(name, parameter)


def module_text(kind: Kind) -> str:
    """Return the module of a kind."""
    objects = objects_of(kind)
    names = other_names(kind, objects)
    is_activation = kind.base == "Activation"
    head = HEADER.format(
        title=kind.module.capitalize(),
        article=kind.article,
        base=kind.base,
        parent="KerasFunction" if is_activation else "KerasObject",
        kind="keras.layers:Layer" if is_activation else f"keras.{kind.module}:{kind.base}",
        functions=kind.functions,
    )
    body = "\n".join(line for name, value in objects.items() for line in class_lines(kind, name, value, names[name]))
    text = head + FURTHER.get(kind.base, "") + body + "\n"
    # Unused imports are removed, and lines are broken.
    for command in (["check", "--select", "F401,I", "--fix", "--quiet"], ["format"]):
        line = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(TARGET / "new.py"), "-"]
        text = subprocess.run(line, input=text, text=True, capture_output=True, check=True).stdout  # noqa: S603
    return text


def main() -> int:
    """Write or check the modules; return the exit code."""
    code = 0
    for kind in KINDS:
        path, text = TARGET / f"{kind.module}.py", module_text(kind)
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            print(f"{path} is not that of Keras {keras.__version__}: run python tools/keras_objects.py")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
