"""Autotuned kernels: the decorator, and the passes that make it small."""

from __future__ import annotations

import pytest

from flacheck.capabilities.repro.kernel.specimen import Specimen
from flacheck.capabilities.repro.passes import TUNING, TUNING_FIRST
from flacheck.capabilities.repro.passes.autotuner import (
    SHIFTED_KEY,
    add_autotuner,
    configs_and_keys,
    distinct_values,
    key_check,
    set_autotuner,
)
from flacheck.capabilities.repro.reducer import reduce
from tests.made_specimens import CHAIN, POINTER, FakeOracle, specimen


def test_an_autotuner_is_written_and_read_back() -> None:
    """Configurations and keys survive the decorator's text."""
    configs = [{"kwargs": {"B": 32}}, {"kwargs": {"B": 64}, "num_warps": 8}]
    one = add_autotuner(specimen("pass", B={"constexpr": 1}), configs, ["B"])
    assert configs_and_keys(one) == (configs, ["B"])


def test_usual_options_are_left_unsaid() -> None:
    """Default options are not written."""
    one = add_autotuner(specimen("pass"), [{"kwargs": {}, "num_warps": 4, "num_stages": 3}], [])
    assert "configs=[triton.Config({}, num_stages=3)], key=[]" in one.source


def test_a_specimen_has_one_autotuner() -> None:
    """A second autotuner replaces the first."""
    args = {"x": POINTER}
    source = specimen("pass", x=POINTER, B={"constexpr": 1}).source
    one = add_autotuner(Specimen(source, "kernel", args, "sm90"), [{"kwargs": {"B": 32}}], [])
    assert one.omitted_parameters == ("B",)
    assert one.stage == "autotune"
    again = set_autotuner(one, [{"kwargs": {"B": 64}}], ["B"])
    assert configs_and_keys(again) == ([{"kwargs": {"B": 64}}], ["B"])
    assert again.source.count("triton.autotune") == 1


def test_values_are_told_apart() -> None:
    """Every number gets a value of its own."""
    start = specimen("pass", x=POINTER, T={"int": 8}, F={"constexpr": "text"}, M={"constexpr": 8})
    [after] = distinct_values(start)
    assert after.args == {
        "x": POINTER,
        "T": {"int": 32},
        "F": {"constexpr": "text"},
        "M": {"constexpr": 64},
    }


def test_an_autotuner_is_reduced_to_two_configurations_and_one_key() -> None:
    """The body and every other key and parameter are removed."""
    configs = [{"kwargs": {"B": b}, "num_warps": w} for b in (32, 64, 128) for w in (2, 4)]
    args = {"x": POINTER, "y": POINTER, "T": {"int": 8}, "M": {"constexpr": 64}}
    bare = specimen(CHAIN, **args, N={"constexpr": 128}, B={"constexpr": 1})
    launch_args = {name: spec for name, spec in bare.args.items() if name != "B"}
    start = add_autotuner(bare.with_(args=launch_args), configs, ["M", "N", "T"])

    def holds(candidate: Specimen) -> bool:
        configs_left, keys = configs_and_keys(candidate)
        return len(configs_left) > 1 and "N" in keys and "N" in candidate.args

    best = start
    for step in reduce(start, TUNING_FIRST, TUNING, FakeOracle(holds)):
        best = step.best
    configs_left, keys = configs_and_keys(best)
    assert len(configs_left) == 2
    assert keys == ["N"]
    assert list(best.args) == ["N"]
    assert best.lines == 1


@pytest.mark.parametrize(
    ("key", "messages"), [((32, "torch.float16"), []), ((64, "torch.float16"), [SHIFTED_KEY])]
)
def test_a_scripts_check_compares_the_key_with_what_it_names(
    key: tuple[object, ...], messages: list[str]
) -> None:
    """The check prints only for a wrong number in the key."""
    one = add_autotuner(
        specimen("pass", K={"constexpr": 32}), [{"kwargs": {}, "num_warps": 2}] * 2, ["K"]
    )
    lines: list[str] = []
    kernel = type("kernel", (), {"cache": {key: None}})
    names = {"kernel": kernel, "print": lambda text, *_: lines.append(text.strip(":"))}
    exec(key_check(one), names)
    assert lines == messages
