"""From records to results, formats and what is emitted: made records, no compiler."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import flacheck
from flacheck.analysis.fallbacks import Fallback
from flacheck.autotune import formats, judging
from flacheck.autotune.bench import _price, _rank, spearman
from flacheck.autotune.cost import cost
from flacheck.autotune.emit import fla, python
from flacheck.autotune.emit.choice import choices
from flacheck.autotune.examined import Fate, Timing, TunerResult
from flacheck.autotune.trials import ruled_out, trials
from flacheck.errors import UsageError
from flacheck.model import Record
from flacheck.reports.base import Page
from flacheck.tables import targets
from tests.made_records import failure, record, unknown
from tests.made_tuned import CONFIGS, SOURCE, call, constexpr, tuned

SCHEMA = json.loads(
    (Path(flacheck.__file__).parent / "tables" / "schemas" / "autotune-1.json").read_text()
)
THREE = (*CONFIGS, {"kwargs": {"BK": 128}, "num_warps": 8, "num_stages": 3})
RESOURCES = {"shared": 16384, "shared_limit": 232448, "registers": 64, "stack": 0, "spills": 0}
OVER = {**RESOURCES, "shared": 300_000}


def good(**more: Any) -> Record:
    return record(**{"seconds": 2.0, "resources": RESOURCES, **more})


def skipped() -> Record:
    return failure(
        "FC501", "out of resource: shared memory", tolerated=True, resources=OVER, seconds=3.0
    )


def fatal() -> Record:
    return failure(
        "FC302",
        "Assertion `reshapeOuts' failed.",
        resources=dict.fromkeys(RESOURCES) | {"shared_limit": 1},
    )


def result(folder: Path, *records: Record, keys: Record | None = None, **more: Any) -> TunerResult:
    """The result of an autotuner with a configuration a record."""
    of = tuned(folder, configs=THREE[: len(records)], **more)
    asked = trials(of)
    known = {cell.key: made for cell, made in zip(asked.configs, records, strict=True)}
    if keys is not None and asked.keys:
        known[asked.keys.key] = keys
    return judging.judge(asked, known, [1.0, 2.0, 3.0][: len(records)], workers=4)


def test_a_fate_is_what_the_trial_showed(tmp_path: Path) -> None:
    """Compiled, forgiven, or neither; of what is unknown nothing is said."""
    found = result(tmp_path, good(), skipped(), fatal())
    assert [each.fate for each in found.configs] == [Fate.RUNS, Fate.SKIPPED, Fate.ENDS_RUN]
    assert found.ends == "configuration 3 of 3 fails with FC302" and found.is_finding
    doubtful = result(tmp_path, good(), unknown())
    assert [each.fate for each in doubtful.configs] == [Fate.RUNS, None] and not doubtful.is_finding


def test_a_run_of_skipped_configurations_ends_too(tmp_path: Path) -> None:
    """The least of infinite times is launched, and raises."""
    found = result(tmp_path, skipped(), skipped())
    assert (
        found.ends is not None
        and "every configuration is skipped" in found.ends
        and found.is_finding
    )


def test_a_key_past_the_end_ends_the_run_before_any_trial(tmp_path: Path) -> None:
    """The verdicts stay, the fates do not."""
    audit = {"key": "K", "want": "K", "got": None, "fault": "past-end"}
    keys = failure("FC601").with_(
        findings=({"code": "FC601", "title": "", "facts": {"keys": [audit]}},)
    )
    found = result(tmp_path, good(), good(), keys=keys, toolchain="triton==3.1.0")
    assert [(each.compiles, each.fate) for each in found.configs] == [(True, Fate.ENDS_RUN)] * 2
    assert found.ends is not None and "IndexError" in found.ends


def test_a_trial_holds_its_configuration_and_one_that_stands_for_the_others(tmp_path: Path) -> None:
    """An autotuner with one configuration launches it untried, so such a one is tried alone."""
    of = tuned(tmp_path)
    both = trials(of).configs
    assert [cell.launch.configs for cell in both if cell.launch] == [CONFIGS, CONFIGS[::-1]]
    assert [cell.options for cell in both] == [
        {"num_warps": 4, "num_stages": 2},
        {"num_warps": 8, "num_stages": 3},
    ]
    (alone,) = trials(tuned(tmp_path, configs=CONFIGS[:1])).configs
    assert alone.launch is not None and alone.launch.configs == CONFIGS[:1]
    assert trials(of).keys is None
    assert trials(tuned(tmp_path, toolchain="triton==3.1.0")).keys is not None


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"num_warps": 64}, "2048 threads"),
        ({"num_warps": 16, "maxnreg": 168}, "at most 128 registers"),
        ({"num_warps": 16, "maxnreg": 128}, None),
        ({"num_warps": 32}, None),
    ],
)
def test_what_no_block_can_have_is_known_before_a_compile(
    tmp_path: Path, config: dict[str, Any], words: str | None
) -> None:
    """Threads and registers are counted, not tried."""
    why = ruled_out(tuned(tmp_path), {"kwargs": {}, **config})
    assert (why is None) if words is None else (why is not None and words in why)


def test_the_cost_of_a_first_run(tmp_path: Path) -> None:
    """Configurations × keys × seconds; several compilers or fewer configurations take less."""
    keys = [call(), call(H=constexpr(8)), call(H=constexpr(16))]
    of = tuned(tmp_path, *keys, configs=THREE)
    asked = trials(of)
    made = [good(), skipped(), good(seconds=4.0)]
    found = judging.judge(
        asked, {c.key: r for c, r in zip(asked.configs, made)}, [1.0, 2.0, 3.0], workers=4
    ).cost
    assert found is not None and (found.configs, found.keys, found.seconds) == (3, 3, 9.0)
    assert (found.first_run, found.warmed, found.pruned) == (27.0, 6.75, 18.0)
    assert found.droppable == {1: "fails"}


def test_what_gains_nothing_is_named(tmp_path: Path) -> None:
    """The same resources with other stages; spills where the same tiles on as many blocks have
    none.
    """
    same = {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 3}
    spilling = {"kwargs": {"BK": 32}, "num_warps": 2, "num_stages": 2}
    of = tuned(tmp_path, configs=(CONFIGS[0], same, spilling))
    asked = trials(of)
    made = [
        good(),
        good(),
        good(resources={**RESOURCES, "registers": 255, "stack": 8, "spills": 8}),
    ]
    found = judging.judge(asked, {c.key: r for c, r in zip(asked.configs, made)}, [1.0, 2.0, 3.0])
    assert found.cost is not None
    assert found.cost.droppable == {
        1: "asks for all that configuration 1 asks for",
        2: "spills where the same tiles do not",
    }
    assert cost([], 1, 4).first_run == 0


def document(*results: TunerResult) -> dict[str, Any]:
    """The JSON of results, which is as its schema says."""
    made: dict[str, Any] = json.loads("".join(formats.render("json", "made:*", results, Page())))
    jsonschema.validate(made, SCHEMA, jsonschema.Draft202012Validator)
    return made


def test_json_is_as_the_contract_has_it(tmp_path: Path) -> None:
    """Every kind of content at once: fates, faults, fallbacks, times."""
    source = SOURCE.replace("'USE_G'],", "'NOTHING'],")
    found = result(tmp_path, good(), skipped(), fatal(), source=source)
    fallback = Fallback(
        found.kernel,
        None,
        found.toolchain,
        "sm90",
        {"num_warps": 8},
        {"num_warps": 4},
        1.0,
        marks={"num_warps": "tunable"},
        places=((found.toolchain, "sm90"),),
    )
    timed = replace(found.configs[0], timing=Timing(0.5, 0.4, 0.6, 2.0, 0.0))
    made = document(
        replace(found, fallbacks=(fallback,), configs=[timed, *found.configs[1:]], rank=0.5)
    )
    (one,) = made["results"]
    assert [config["outcome"] for config in one["configs"]] == ["runs", "skipped", "ends_run"]
    assert one["configs"][0]["occupancy"] == 0.5 and one["configs"][0]["limited_by"] == "registers"
    assert one["configs"][0]["timing"]["median_ms"] == 0.5
    assert [(key["fault"], key["key"], key["file"]) for key in one["keys"]] == [
        ("no-argument", "NOTHING", "made.py")
    ]
    assert one["fallbacks"][0]["use"] == {"num_warps": 4}
    assert targets.find("sm90").shared_limit == one["configs"][0]["resources"]["shared_limit"]


def test_a_table_says_what_ends_the_run_and_what_to_write(tmp_path: Path) -> None:
    """A line each for fate, cause, fault and cost."""
    found = result(tmp_path, good(), fatal(), source=SOURCE.replace("'USE_G'],", "'NOTHING'],"))
    text = "".join(formats.render("table", "made:*", [found], Page(width=140)))
    for words in (
        "2 configurations: 1 runs, 1 ends run · 1 key fault",
        "the run ends: configuration 2 of 2 fails with FC302",
        "16/227K",
        "50% 8× regs",
        "2: FC302 Assertion `reshapeOuts' failed.",
        "(made.py:8)",
        "key=['H', 'K'],",
        "2 configurations × 1 key",
    ):
        assert words in text, text
    markdown = "".join(formats.render("markdown", "made:*", [found], Page()))
    assert (
        "| 1 | BK=32 | 4 | 2 | compiles | runs | 16/227K |" in markdown and "```python" in markdown
    )
    with pytest.raises(UsageError, match="table, json, markdown"):
        formats.check("github")


def test_what_is_emitted_runs_everywhere(tmp_path: Path) -> None:
    """A configuration that one of two releases does not run is no choice; one that spills comes
    last.
    """
    here = result(tmp_path, good(resources={**RESOURCES, "spills": 4}), good(), good())
    there = result(tmp_path, good(), good(), fatal(), toolchain="triton==3.2.0")
    (choice,) = choices([here, there])
    assert [config["kwargs"]["BK"] for config in choice.configs] == [64, 32]
    assert choice.where == "triton==3.5.1, triton==3.2.0 on sm90"


def test_a_fallback_stands_in_where_nothing_runs(tmp_path: Path) -> None:
    """If it is a configuration, and compiles at every place."""
    found = result(tmp_path, fatal(), fatal())
    place = ((found.toolchain, found.target),)
    failing = {"BK": 64, "num_warps": 8, "num_stages": 3}
    use = Fallback(found.kernel, None, *place[0], failing, {"num_warps": 4}, 1.0, places=place)
    other = replace(use, use={"dtype": "fp32"})
    (choice,) = choices([replace(found, fallbacks=(other, use))])
    assert choice.configs == [{"kwargs": {"BK": 64}, "num_warps": 4, "num_stages": 3}]


def test_python_runs_as_pasted(tmp_path: Path) -> None:
    """Under a real Triton it is a list of its configurations, with the language's constants."""
    pytest.importorskip("triton")
    configs = (
        {"kwargs": {"BK": 32, "ACC": {"dtype": "fp32"}}, "num_warps": 4, "num_stages": 2},
        CONFIGS[1],
    )
    asked = trials(tuned(tmp_path, configs=configs))
    known = {cell.key: good() for cell in asked.configs}
    text = "".join(python.render([judging.judge(asked, known, [1.0, 2.0])]))
    names: dict[str, Any] = {}
    exec(compile(text, "pasted", "exec"), names)
    one, other = names["KERNEL_CONFIGS"]
    assert (one.kwargs, one.num_warps, one.num_stages) == (
        {"BK": 32, "ACC": names["tl"].float32},
        4,
        2,
    )
    assert (other.kwargs, other.num_warps, other.num_stages) == ({"BK": 64}, 8, 3)


def test_the_files_for_fla_hold_keys_and_a_default(tmp_path: Path) -> None:
    """By the MD5 of the key as FLA writes it; a kernel of which nothing runs has no file."""
    ((name, text),) = fla.files([result(tmp_path, good(), good())])
    found = json.loads(text)
    assert name == "kernel.json" and found["default_config"]["kwargs"] == {"BK": 32}
    key = [4, 64, False, "torch.bfloat16"]
    digest = hashlib.md5(b'[4,64,false,"torch.bfloat16"]').hexdigest()
    assert found["autotune_entries"] == {
        digest: {"autotune_key": key, "config": found["default_config"]}
    }
    assert list(fla.files([result(tmp_path, fatal(), fatal())])) == []


def test_ranks_share_their_mean_where_values_tie() -> None:
    """Against values computed by hand."""
    assert spearman([1, 2, 3, 4], [10, 20, 30, 40]) == 1.0
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == -1.0
    assert spearman([1, 1, 2, 3], [1, 2, 3, 4]) == 0.949
    assert spearman([1, 2], [1, 2]) is None and spearman([1, 1, 1], [1, 2, 3]) is None


def test_a_price_is_a_multiple_of_the_best(tmp_path: Path) -> None:
    """And the estimate's rank is of what was timed alone."""
    found = result(tmp_path, good(), good(), good())
    times = [Timing(ms, ms, ms, 1.0, 0.0) for ms in (2.0, 1.0, 4.0)]
    timed = [replace(each, timing=time) for each, time in zip(found.configs, times)]
    assert _price(Timing(3.0, 3.0, 3.0, 1.0, 0.0), timed) == (3.0, 3.0)
    assert _rank(timed) == 0.5
    assert _rank([*timed[:2], replace(timed[2], timing=None)]) is None
