"""Paths matched by their last parts: the longest tail wins, and equal ones are told apart by nobody."""

from __future__ import annotations

import tracemalloc

from tfaip.model.weightsource import Match, match_tails


def matched(targets: list[str], names: list[str], used: frozenset[str] = frozenset()) -> dict[str, Match]:
    return match_tails(targets, {name: name for name in names}, used)


def test_a_tail_is_enough() -> None:
    for target, name in [
        ("features/kernel", "model/graph/features/kernel"),
        ("net/features/kernel", "features/kernel"),
        ("net/features/kernel", "model/graph/features/kernel"),
        ("heads/0/kernel", "graph/heads/0/kernel"),
        ("scale", "model/graph/scale"),
    ]:
        assert matched([target], [name, "other/bias"]) == {target: Match(name)}
    for target, name in [
        ("features/kernel", "hidden/kernel"),  # what every layer has
        ("features/kernel", "kernel"),
        ("net/heads/0/kernel", "model/layers/0/kernel"),  # a place in any list
        ("features/kernel", "more_features/kernel"),  # whole parts only
    ]:
        assert matched([target], [name]) == {}
    names = {"graph/dense/kernel": "array", "layers/dense/kernel": "array", "variables/0": "array"}  # one array
    assert match_tails(["net/dense/kernel"], names, frozenset()) == {"net/dense/kernel": Match("array")}


def test_the_longest_tail_wins() -> None:
    names = ["m/encoder/norm/gamma", "m/decoder/norm/gamma"]
    targets = ["x/decoder/norm/gamma", "x/encoder/norm/gamma"]
    assert matched(targets, names) == {targets[0]: Match(names[1]), targets[1]: Match(names[0])}
    # Between targets as well: the other one gets nothing, rather than what is left over.
    assert matched(["x/norm/gamma", "y/encoder/norm/gamma"], names[:1]) == {"y/encoder/norm/gamma": Match(names[0])}


def test_equal_tails_are_ambiguous() -> None:
    names = ["m/a/norm/gamma", "m/b/norm/gamma"]
    assert matched(["norm/gamma"], names) == {"norm/gamma": Match(None, ("m/a/norm/gamma", "m/b/norm/gamma"))}
    assert matched(["x/norm/gamma", "y/norm/gamma"], names[:1]) == {
        "x/norm/gamma": Match(None, ("y/norm/gamma",)),
        "y/norm/gamma": Match(None, ("x/norm/gamma",)),
    }


def test_an_array_that_is_used_is_not_given_again() -> None:
    names = ["a/norm/gamma", "b/norm/gamma"]
    assert matched(["x/norm/gamma"], names[:1], frozenset(names[:1])) == {}
    # It might have been meant all the same.
    assert matched(["x/norm/gamma"], names, frozenset(names[:1])) == {"x/norm/gamma": Match(None, tuple(names))}


def test_a_name_of_many_parts_takes_no_memory() -> None:
    tracemalloc.start()
    name = "a/" * 100_000 + "features/kernel"  # all of its tails: 20 GB
    assert matched(["net/features/kernel"], [name]) == {"net/features/kernel": Match(name)}
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
