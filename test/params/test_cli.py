"""Flags: names, values, class choice, defaults, errors."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import field

import pytest

from test.params import cli_params
from test.params.cli_params import (
    AdamOptimizer,
    CNNGraphParams,
    ConstantRateParams,
    ConvolutionLayerParams,
    CosineRateParams,
    CountedListsGeneratorParams,
    DenseLayerParams,
    GraphParams,
    LayerParams,
    ListsGeneratorParams,
    MLPGraphParams,
    Mode,
    RangeParams,
    RunParams,
    SGDOptimizer,
)
from test.params.conftest import Write
from test.params.parsing import failure, make_parser, parse
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, names as oldnames, pai_meta
from tfaip.params.commandline import ParamsParser


def test_defaults() -> None:
    assert parse("") == RunParams(output_dir="out")


def test_values_arrive(subtests: pytest.Subtests) -> None:
    for line, path, value in [
        ("--run.epochs 5", "epochs", 5),
        ("--run.epochs=5", "epochs", 5),
        ("--overwrite", "overwrite", True),
        ("--run.mode SLOW", "mode", Mode.SLOW),
        ("--run.gpus -1", "gpus", [-1]),
        ("--run.weights a=1 b=-2", "weights", {"a": 1.0, "b": -2.0}),
        ("--run.names x y", "names", {"x", "y"}),
        ("--run.either x", "either", "x"),
        ("--run/slashed.low .5", "slashed", RangeParams(0.5)),
        ("--run.span.low 0.25 --run.span.high -2", "span", RangeParams(0.25, -2.0)),
        ("--data.size 3 4 --data.augment", "data", cli_params.DataParams((3, 4), True)),
        ("--learning_rate.max_lr None", "learning_rate", CosineRateParams()),
        ("--optimizer SGD --optimizer.momentum 0.5", "optimizer", SGDOptimizer(momentum=0.5)),
        ("--optimizer.momentum 0.5 --optimizer=SGD", "optimizer", SGDOptimizer(momentum=0.5)),
        ("--optimizer test.params.cli_params:SGDOptimizer", "optimizer", SGDOptimizer()),
        ("--run.backup Adam --run.backup.beta_1 0", "backup", AdamOptimizer(beta_1=0.0)),
        ("--run.backup None", "backup", None),
        (
            "--run.graph.layers conv Dense --run.graph.layers.0.kernel 5 --run.graph.layers.1.units 2",
            "graph",
            MLPGraphParams(layers=[ConvolutionLayerParams(kernel=5), DenseLayerParams(units=2)]),
        ),
        ("--run.graph.layers.0.bias no", "graph", MLPGraphParams([DenseLayerParams(units=4, bias=False)])),
        ("--run.graph.layers.0 conv", "graph", MLPGraphParams([ConvolutionLayerParams(units=4)])),
        ("--run.graph.layers", "graph", MLPGraphParams(layers=[])),
        (
            "--run.graph.heads a=Dense b --run.graph.heads.b.units 1",
            "graph",
            MLPGraphParams(heads={"a": DenseLayerParams(), "b": LayerParams(units=1)}),
        ),
    ]:
        with subtests.test(line=line):
            assert getattr(parse(line), path) == value


def test_two_nodes_share_a_prefix() -> None:
    run = parse("--train CountedLists --train.count 3 --train.batch_size 4")
    assert run.gen.setup.train.batch_size == 4
    assert run.gen.train == CountedListsGeneratorParams(count=3)
    lists = parse("--train.lists a b --train.batch_size 4")
    assert lists.gen.train == ListsGeneratorParams(["a", "b"])
    assert lists.gen.setup.train.batch_size == 4


def test_post_init_runs_over_the_whole_tree() -> None:
    run = parse("--run.epochs 7 --train.batch_size 3")
    assert run.doubled == 14
    assert run.gen.setup.val.batch_size == 3


def test_options() -> None:
    args = make_parser().parse(["--run.output_dir", "o", "--dry_run", "--dirs", "a", "b"])
    assert (args.dry_run, args.limit, args.dirs) == (True, 3, ["a", "b"])
    args = make_parser().parse(["--limit=-4", "--run.output_dir=--o"])
    assert (args.dry_run, args.limit, args.dirs, args.run.output_dir) == (False, -4, None, "--o")
    with pytest.raises(UsageError, match="--limit: expected int, got 'x'"):
        make_parser().parse(["--limit", "x"])


def test_the_default_instance_supplies_values_and_is_not_changed() -> None:
    default = RunParams(output_dir="there", epochs=3, secret=8, gpus=[5])
    default.graph.layers[0].units = 77
    default.optimizer = SGDOptimizer(momentum=0.25)
    before = copy.deepcopy(default)
    run = make_parser(default).parse(["--run.graph.layers.0.bias", "False", "--optimizer.weight_decay", "1"]).run
    assert (run.output_dir, run.epochs, run.secret, run.gpus) == ("there", 3, 8, [5])
    assert run.graph.layers == [DenseLayerParams(units=77, bias=False)]
    assert run.optimizer == SGDOptimizer(momentum=0.25, weight_decay=1.0)
    run.gpus.append(1)
    run.graph.layers.clear()
    assert default == before


def test_another_class_keeps_what_both_inherit_from_the_declared_type() -> None:
    default = RunParams(
        learning_rate=CosineRateParams(lr=0.5, alpha=0.7), optimizer=AdamOptimizer(clip_norm=2.0, weight_decay=0.0)
    )
    run = parse("--learning_rate Constant --optimizer SGD", default)
    assert run.learning_rate == ConstantRateParams(lr=0.5)
    # Nobody has set weight_decay: the other class's own default counts.
    assert run.optimizer == SGDOptimizer(clip_norm=2.0, weight_decay=0.5)
    assert parse("--learning_rate Cosine", default).learning_rate.alpha == 0.7


def test_errors_are_one_clear_line(subtests: pytest.Subtests) -> None:
    for line, message in [
        ("--run.epoch 5", "unknown flag --run.epoch; did you mean --run.epochs"),
        ("--run.beta_1 0.5", "unknown flag --run.beta_1; did you mean --optimizer.beta_1 or"),
        ("--zzz", "unknown flag --zzz; --help all lists all flags"),
        ("-z 3", "unknown flag -z: flags begin with --; a value is written --flag=-z"),
        ("--run.secret 5", "unknown flag --run.secret"),
        ("--data x", "unknown flag --data; did you mean --data.size"),
        (
            "--learning_rate Constant --learning_rate.alpha 1",
            "unknown flag --learning_rate.alpha; it belongs to Cosine: choose it with --learning_rate Cosine",
        ),
        ("--run.epochs", "--run.epochs needs a value: expected int"),
        ("--run.epochs 1 --run.epochs 2", "--run.epochs is given twice: give it once"),
        ("--run.size xl", "--run.size: 'xl' is not among the choices s, m, l"),
        ("--train.lists", "--train.lists needs at least one value"),
        ("--optimizer Adm", "--optimizer: no class 'Adm'; did you mean Adam? (or module:Class)"),
        ("--optimizer", "--optimizer takes one class, got nothing; expected one of: Adam, SGD"),
        ("--optimizer None", "--optimizer cannot be None; expected one of: Adam, SGD"),
        ("--run.graph.heads a=Dense a=Dense", "--run.graph.heads: a key is given twice"),
        (
            "--run.graph.layers.7.units 1",
            "unknown flag --run.graph.layers.7.units; did you mean --run.graph.layers.0.units",
        ),
        ("--run.epochs -1", "--run.*: epochs is -1, expected at least 0: change --run.epochs"),
    ]:
        with subtests.test(line=line):
            assert failure(line).startswith(message)


def test_a_word_before_the_first_flag() -> None:
    with pytest.raises(UsageError, match="unexpected argument 'word': a value follows its flag"):
        make_parser().parse(["word", "--dry_run"])


def test_old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oldnames, "RENAMED_FIELDS", {"RunParams": {"n_epochs": "epochs"}})
    with pytest.warns(DeprecationWarning, match=r"--run\.n_epochs is now called --run\.epochs"):
        assert parse("--run.n_epochs 5").epochs == 5
    assert failure("--run.n_epochs 5 --run.epochs 6") == (
        "both --run.n_epochs (the old name) and --run.epochs are given: give only --run.epochs"
    )


class Clashing(ParamsBase):
    one: RangeParams = field(default_factory=RangeParams, metadata=pai_meta(mode="flat", fix_dc=True))
    low: int = field(default=1, metadata=pai_meta(mode="flat"))


class FlatInside(RangeParams):
    low: float = field(default=0.0, metadata=pai_meta(mode="flat"))


class ReallyClashing(Clashing):
    one: RangeParams = field(default_factory=FlatInside, metadata=pai_meta(mode="flat", fix_dc=True))


def test_flat_flags_and_their_clashes() -> None:
    parser = ParamsParser("x")
    parser.add_params("p", Clashing)
    parsed = parser.parse(["--one.low", "2", "--low", "3"]).p
    assert (parsed.one.low, parsed.low) == (2.0, 3)
    parser = ParamsParser("x")
    parser.add_params("p", ReallyClashing)
    with pytest.raises(TypeError, match="two fields share the flag --low"):
        parser.parse([])


class Shape(ParamsBase, ABC):
    @abstractmethod
    def area(self) -> float: ...


class SquareShape(Shape):
    side: float = 1.0

    def area(self) -> float:
        return self.side**2


class ShapesParams(ParamsBase):
    main: Shape
    more: list[Shape] | None = field(default=None, metadata=pai_meta(nargs="+"))
    limit: float = 5.0

    def __post_init__(self) -> None:
        if sum(shape.area() for shape in [self.main, *(self.more or [])]) > self.limit:
            raise ValueError("too large")


def test_abstract_and_optional_classes(subtests: pytest.Subtests) -> None:
    for line, message in [
        ("", "missing required flag: --p.main"),
        ("--p.main Shape", "--p.main: no class 'Shape'; expected one of: Square (or module:Class)"),
        ("--p.main Square --p.more", "--p.more needs at least one class"),
        ("--p.main Square --p.main.side 3", "--p.*: too large"),
        ("--p.main Square --p.more Square --p.more.0.side 3", "--p.*: too large"),
    ]:
        with subtests.test(line=line):
            parser = ParamsParser("x")
            parser.add_params("p", ShapesParams)
            with pytest.raises(UsageError) as error:
                parser.parse(line.split())
            assert str(error.value) == message
    assert parser.parse(["--p.main", "Square"]).p == ShapesParams(SquareShape())
    assert parser.parse(["--p.main", "Square", "--p.more", "None"]).p.more is None
    assert parser.parse(["--p.main", "Square", "--p.more", "Square", "Square"]).p.more == [SquareShape(), SquareShape()]


def test_an_item_of_an_abstract_class_needs_a_class(write: Write, subtests: pytest.Subtests) -> None:
    for item in ["{side: 3}", "{}"]:
        with subtests.test(item=item):
            config = write("config.yaml", f"p: {{main: Square, more: [{item}]}}")
            parser = ParamsParser("x")
            parser.add_params("p", ShapesParams)
            with pytest.raises(UsageError) as error:
                parser.parse(["--config", config])
            assert str(error.value) == f"{config}: p.more.0 needs a class; expected one of: Square"


def test_several_roots_and_choice_of_a_root() -> None:
    parser = ParamsParser("x")
    parser.add_params("graph", GraphParams, metadata=pai_meta(choices=[MLPGraphParams, CNNGraphParams]))
    parser.add_params("data", cli_params.DataParams, metadata=pai_meta(fix_dc=True))
    args = parser.parse(["--graph", "CNN", "--graph.pool", "3", "--data.augment"])
    assert (args.graph, args.data) == (CNNGraphParams(pool=3), cli_params.DataParams(augment=True))
    assert type(parser.parse([]).graph) is GraphParams


def test_a_nul_character_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^the argument 'a\\x00b' holds a NUL character$"):
        make_parser().parse(["--run.output_dir", "a\0b"])
