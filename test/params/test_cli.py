"""Flags: names, values, class choice, defaults, errors."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from test.params import cli_params as p
from test.params.cli_params import failure, make_parser, parse, parser_of
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option, pai_meta
from tfaip.params.choices import ClassChoice


@pytest.mark.parametrize(
    ("line", "path", "value"),
    [
        ("--run.epochs 5", "epochs", 5),
        ("--overwrite", "overwrite", True),
        ("--run/slashed.low .5", "slashed", p.RangeParams(0.5)),
        ("--data.size 3 4 --data.augment", "data", p.DataParams((3, 4), True)),
        ("--optimizer.momentum 0.5 --optimizer=SGD", "optimizer", p.SGDOptimizer(momentum=0.5)),
        ("--optimizer test.params.cli_params:SGDOptimizer", "optimizer", p.SGDOptimizer()),
        ("--run.backup Adam --run.backup.beta_1 0", "backup", p.AdamOptimizer(beta_1=0.0)),
        (
            "--run.graph.layers conv Dense --run.graph.layers.0.kernel 5 --run.graph.layers.1.units 2",
            "graph",
            p.MLPGraphParams(layers=[p.ConvolutionLayerParams(kernel=5), p.DenseLayerParams(units=2)]),
        ),
        ("--run.graph.layers.0.bias no", "graph", p.MLPGraphParams([p.DenseLayerParams(units=4, bias=False)])),
        ("--run.graph.layers.0 conv", "graph", p.MLPGraphParams([p.ConvolutionLayerParams(units=4)])),
        (
            "--run.graph.heads a=Dense b --run.graph.heads.b.units 1",
            "graph",
            p.MLPGraphParams(heads={"a": p.DenseLayerParams(), "b": p.LayerParams(units=1)}),
        ),
    ],
)
def test_values_arrive(line: str, path: str, value: Any) -> None:
    assert getattr(parse(line), path) == value


def test_two_nodes_share_a_prefix_and_post_init_runs_over_the_whole_tree() -> None:
    run = parse("--train CountedLists --train.count 3 --train.batch_size 4 --run.epochs 7")
    assert (run.gen.setup.train.batch_size, run.gen.setup.val.batch_size, run.doubled) == (4, 4, 14)
    assert run.gen.train == p.CountedListsGeneratorParams(count=3)
    assert parse("--train.lists a b --train.batch_size 4").gen.train == p.ListsGeneratorParams(["a", "b"])


def test_options() -> None:
    args = make_parser().parse(["--run.output_dir", "o", "--dry_run", "--dirs", "a", "b"])
    assert (args.dry_run, args.limit, args.dirs) == (True, 3, ["a", "b"])
    args = make_parser().parse(["--limit=-4", "--run.output_dir=--o"])
    assert (args.dry_run, args.limit, args.dirs, args.run.output_dir) == (False, -4, None, "--o")
    for argv, message in [
        (["--limit", "x"], "--limit: expected int, got 'x'"),
        (["word", "--dry_run"], "unexpected argument 'word': a value follows its flag"),
        (["--run.output_dir", "None"], "missing required flag: --run.output_dir$"),
    ]:
        with pytest.raises(UsageError, match=f"^{message}"):
            make_parser().parse(argv)
    with pytest.raises(UsageError, match="^missing required flag: --run.output_dir$"):
        make_parser(p.RunParams()).parse([])


def test_the_default_instance_supplies_values_and_is_not_changed() -> None:
    default = p.RunParams(output_dir="there", epochs=3, secret=8, gpus=[5])
    default.graph.layers[0].units = 77
    default.optimizer = p.SGDOptimizer(momentum=0.25)
    before = copy.deepcopy(default)
    run = make_parser(default).parse(["--run.graph.layers.0.bias", "False", "--optimizer.weight_decay", "1"]).run
    assert (run.output_dir, run.epochs, run.secret, run.gpus) == ("there", 3, 8, [5])
    assert run.graph.layers == [p.DenseLayerParams(units=77, bias=False)]
    assert run.optimizer == p.SGDOptimizer(momentum=0.25, weight_decay=1.0)
    run.gpus.append(1)
    run.graph.layers.clear()
    assert default == before


def test_another_class_keeps_what_both_inherit_from_the_declared_type() -> None:
    default = p.RunParams(
        learning_rate=p.CosineRateParams(lr=0.5, alpha=0.7), optimizer=p.AdamOptimizer(clip_norm=2.0, weight_decay=0.0)
    )
    run = parse("--learning_rate Constant --optimizer SGD", default)
    assert run.learning_rate == p.ConstantRateParams(lr=0.5)
    # Nobody has set weight_decay: the other class's own default counts.
    assert run.optimizer == p.SGDOptimizer(clip_norm=2.0, weight_decay=0.5)
    assert parse("--learning_rate Cosine", default).learning_rate.alpha == 0.7


def test_errors_are_one_clear_line() -> None:
    for line, message in [
        ("--run.epoch 5", "unknown flag --run.epoch; did you mean --run.epochs"),
        ("--run.beta_1 0.5", "unknown flag --run.beta_1; did you mean --optimizer.beta_1 or"),
        ("-z 3", "unknown flag -z: flags begin with --; a value is written --flag=-z"),
        (
            "--learning_rate Constant --learning_rate.alpha 1",
            "unknown flag --learning_rate.alpha; it belongs to Cosine: choose it with --learning_rate Cosine",
        ),
        ("--train.lists", "--train.lists needs at least one value"),
        ("--optimizer Adm", "--optimizer: no class 'Adm'; did you mean Adam? (or module:Class)"),
        ("--optimizer None", "--optimizer: expected the name of a class, got None"),
        ("--run.graph.heads a=Dense a=Dense", "--run.graph.heads: key 'a' is given twice"),
        (
            "--run.graph.layers.7.units 1",
            "unknown flag --run.graph.layers.7.units; did you mean --run.graph.layers.0.units",
        ),
        (
            "--run.graph.heads.x.units 1",
            "unknown flag --run.graph.heads.x.units; --run.graph.heads is empty: name a class for each item, as in "
            "--run.graph.heads x=Layer",
        ),
        ("--run.epochs -1", "--run.*: epochs is -1, expected at least 0: change --run.epochs"),
    ]:
        assert failure(line).startswith(message), line


class FlatInside(p.RangeParams):
    low: float = option(0.0, mode="flat")


class Flat(ParamsBase):
    one: p.RangeParams = option(p.RangeParams(), mode="flat", fix_dc=True)
    low: int = option(1, mode="flat")


def test_flat_flags_and_their_clashes() -> None:
    parsed = parser_of(Flat).parse(["--one.low", "2", "--low", "3"]).p
    assert (parsed.one.low, parsed.low) == (2.0, 3)
    with pytest.raises(TypeError, match="two fields share the flag --low"):
        parser_of(Flat, Flat(one=FlatInside())).parse([])


class NeedsParams(ParamsBase):
    a: int
    items: list[p.LayerParams] = []
    b: str = option("x", required=True)


class NeedsItemsParams(ParamsBase):
    child: NeedsParams


@pytest.mark.parametrize(
    ("cls", "default", "line", "expected"),
    [
        (NeedsItemsParams, None, "", "missing required flags: --p.child.a, --p.child.b"),
        (NeedsItemsParams, None, "--p.child.a 1 --p.child.b y", NeedsItemsParams(NeedsParams(1, b="y"))),
        (p.PromptedParams, None, "", "missing required flags: --p.text, --p.words"),
        (p.PromptedParams, p.PromptedParams(), "--p.text= --p.words a", "missing required flag: --p.text"),
        (p.PromptedParams, p.PromptedParams(), "--p.text t --p.words a", p.PromptedParams("t", ["a"])),
    ],
)
def test_missing_required_values_are_listed(cls: type, default: Any, line: str, expected: Any) -> None:
    try:
        assert parser_of(cls, default).parse(line.split()).p == expected
    except UsageError as error:
        assert str(error) == expected  # noqa: PT017


def test_several_roots_and_choice_of_a_root() -> None:
    parser = parser_of(p.GraphParams, choices=[p.MLPGraphParams, p.CNNGraphParams])
    parser.add_params("data", p.DataParams, metadata=pai_meta(fix_dc=True))
    args = parser.parse(["--p", "CNN", "--p.pool", "3", "--data.augment"])
    assert (args.p, args.data) == (p.CNNGraphParams(pool=3), p.DataParams(augment=True))
    assert type(parser.parse([]).p) is p.GraphParams


class TutorialGraphBaseParams(ParamsBase): ...


class LSTMGraphParams(TutorialGraphBaseParams): ...


Clone: Any = type("LSTMGraphParams", (ParamsBase,), {"__module__": "elsewhere"})


OWN, ALL = "test.params.test_cli:", "test.params.cli_params:"
ENFORCED = {"choices": [p.MLPGraphParams], "enforce_choices": True}


@pytest.mark.parametrize(
    ("base", "meta", "cls", "names"),
    [
        (p.OptimizerParams, {}, p.AdamOptimizer, ["Adam", "AdamOptimizer", "AdamParams"]),
        (p.LayerParams, {}, p.ConvolutionLayerParams, ["conv", "Convolution", "ConvolutionLayerParams"]),
        # Listed choices are not the only ones, unless they are enforced.
        (p.GraphParams, {"choices": [p.MLPGraphParams]}, p.CNNGraphParams, [f"{ALL}CNNGraphParams"]),
        (p.GraphParams, ENFORCED, p.MLPGraphParams, ["MLP"]),
        (TutorialGraphBaseParams, {"choices": [LSTMGraphParams, Clone]}, LSTMGraphParams, [f"{OWN}LSTMGraphParams"]),
        (p.GraphParams, {"disable_subclass_check": True}, p.AdamOptimizer, [f"{ALL}AdamOptimizer"]),
    ],
)
def test_accepted_names(base: type, meta: dict[str, Any], cls: type, names: list[str]) -> None:
    choice = ClassChoice(base, meta)
    assert choice.name_of(cls) == names[0]
    assert (names[0] in choice.names()) == (cls in choice.classes)
    for name in [*names, f"{cls.__module__}:{cls.__name__}"]:
        assert choice.select(name, "--x") is cls


@pytest.mark.parametrize(
    ("base", "meta", "name", "message"),
    [
        (p.OptimizerParams, {}, "adam", "no class 'adam'; did you mean Adam? (or module:Class)"),
        (
            p.OptimizerParams,
            {},
            f"{ALL}AdamOptimize",
            "module test.params.cli_params has; did you mean AdamOptimizer",
        ),
        (p.OptimizerParams, {}, "broken_params:X", "a module that can be imported (RuntimeError: boom second l"),
        (p.OptimizerParams, {}, "ending:X", "a module that can be imported (SystemExit: 0)"),
        (p.GraphParams, ENFORCED, f"{ALL}CNNGraphParams", "CNNGraphParams is not allowed here; expected one of: MLP"),
        (TutorialGraphBaseParams, {"choices": [LSTMGraphParams, Clone]}, "LSTM", ": LSTM may be any of test.params.te"),
    ],
)
def test_wrong_names(
    base: type, meta: dict[str, Any], name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_params.py").write_text("raise RuntimeError('boom\\nsecond line')")
    (tmp_path / "ending.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError) as error:
        ClassChoice(base, meta).select(name, "--x")
    assert str(error.value).startswith("--x")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert "broken_params" not in sys.modules


def test_a_class_defined_again_replaces_the_former_one(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("cells")
    monkeypatch.setitem(sys.modules, "cells", module)
    for _ in range(2):
        module.RateParams = p.RateParams
        exec("class TwiceRate(RateParams): ...", vars(module))  # noqa: S102
    assert ClassChoice(p.RateParams, {}).select("Twice", "--rate") is module.TwiceRate
    monkeypatch.delitem(sys.modules, "cells")
    with pytest.raises(UsageError, match="--rate: no class 'Twice'"):
        ClassChoice(p.RateParams, {}).select("Twice", "--rate")
