"""Configurations that run everywhere, emitted as Python and as files for FLA."""

from __future__ import annotations

import ast
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from flacheck.capabilities.autotune import emit
from flacheck.capabilities.autotune.emit import choices
from flacheck.capabilities.autotune.keys import KeyEvidence
from flacheck.capabilities.autotune.results import TunerResult
from flacheck.evidence.analysis.fallbacks import Fallback
from flacheck.model import Record
from flacheck.source.host_code import HostLaunch
from tests.made_records import failure
from tests.made_tuned import (
    CONFIGS,
    RESOURCES,
    THREE,
    call,
    constexpr,
    fatal,
    good,
    result,
    skipped,
    tuned_launch,
)


def test_what_is_emitted_runs_everywhere(tmp_path: Path) -> None:
    """A configuration that fails under one release is left out; one that spills comes last."""
    here = result(tmp_path, good(resources={**RESOURCES, "spills": 4}), good(), good())
    there = result(tmp_path, good(), good(), fatal(), toolchain="triton==3.2.0")
    (choice,) = choices([here, there])
    assert [config["kwargs"]["BK"] for config in choice.configs] == [64, 32]
    assert choice.where == "triton==3.5.1, triton==3.2.0 on sm90"


def test_a_fallback_stands_in_where_nothing_runs(tmp_path: Path) -> None:
    """A fallback that compiles everywhere replaces a list in which nothing runs."""
    failing = result(tmp_path, fatal(), fatal())
    place = ((failing.toolchain, failing.target),)
    settings = {"BK": 64, "num_warps": 8, "num_stages": 3}
    use = Fallback(failing.kernel, None, *place[0], settings, {"num_warps": 4}, 1.0, places=place)
    other = replace(use, use={"dtype": "fp32"})
    elsewhere = replace(use, use={"num_warps": 2}, places=())
    (choice,) = choices([replace(failing, fallbacks=(other, elsewhere, use))])
    assert choice.configs == [{"kwargs": {"BK": 64}, "num_warps": 4, "num_stages": 3}]


def test_python_runs_as_pasted(tmp_path: Path) -> None:
    """The emitted Python builds a list of Triton's Config objects."""
    pytest.importorskip("triton")
    config = {"kwargs": {"BK": 32, "ACC": {"dtype": "fp32"}}, "num_warps": 4, "num_stages": 2}
    text = "".join(emit.python([result(tmp_path, good(), good(), configs=(config, CONFIGS[1]))]))
    names: dict[str, Any] = {}
    exec(compile(text, "pasted", "exec"), names)
    one, other = names["KERNEL_CONFIGS"]
    assert one.kwargs == {"BK": 32, "ACC": names["tl"].float32}
    assert (one.num_warps, one.num_stages) == (4, 2)
    assert other.kwargs == {"BK": 64}
    assert (other.num_warps, other.num_stages) == (8, 3)


def configs_by_key(*results: TunerResult, reading: tuple[str, ...] = ()) -> dict[str, Any]:
    """The configurations of the only file, by their keys."""
    (file,) = emit.fla(results, reading)
    document = json.loads(file.text())
    assert "default_config" not in document
    entries = document["autotune_entries"].values()
    return {str(entry["autotune_key"]): entry["config"] for entry in entries}


def left_out(*results: TunerResult, reading: tuple[str, ...] = ()) -> list[str]:
    """Why the keys of the only file are left out."""
    (file,) = emit.fla(results, reading)
    return [entry.left_out for entry in file.entries if entry.left_out]


def at(folder: Path, head: int, *records: Record, **more: Any) -> TunerResult:
    """The result of a launch with this head size."""
    return result(folder, *records, calls=(call(K=constexpr(head)),), **more)


SMALL, LARGE = "[4, 64, False, 'torch.bfloat16']", "[4, 256, False, 'torch.bfloat16']"


def test_the_files_for_fla_hold_each_key_and_no_default(tmp_path: Path) -> None:
    """A file for FLA has one entry a key, under the MD5 that FLA computes."""
    (file,) = emit.fla([result(tmp_path, good(), good())])
    document = json.loads(file.text())
    assert file.name == "kernel.json"
    assert document.keys() == {"kernel_name", "triton_version", "autotune_entries"}
    digest = hashlib.md5(b'[4,64,false,"torch.bfloat16"]').hexdigest()
    ((digest_in_file, entry),) = document["autotune_entries"].items()
    assert (digest_in_file, entry["autotune_key"]) == (digest, [4, 64, False, "torch.bfloat16"])
    assert entry["config"]["kwargs"] == {"BK": 32}


def test_each_key_gets_a_configuration_that_runs_at_its_own_sizes(tmp_path: Path) -> None:
    """A configuration that is too large for one head size is written for the other."""
    small, large = at(tmp_path, 64, good(), skipped()), at(tmp_path, 256, skipped(), good())
    configs = configs_by_key(small, large)
    assert configs[SMALL]["kwargs"] == {"BK": 32}
    assert configs[LARGE]["kwargs"] == {"BK": 64}


def test_a_key_at_which_nothing_runs_is_left_out_with_the_reason(tmp_path: Path) -> None:
    """A key without a configuration that runs is left out of the file."""
    small, large = at(tmp_path, 64, good(), good()), at(tmp_path, 256, skipped(), skipped())
    assert list(configs_by_key(small, large)) == [SMALL]
    (why,) = left_out(small, large)
    assert why.startswith("no configuration runs: FC501 out of resource: shared memory under")


def test_a_configuration_runs_in_every_launch_with_its_key(tmp_path: Path) -> None:
    """A key's configuration runs in every binary that shares the key."""
    plain, other = call(), call(eps=constexpr(1))
    alone = result(tmp_path, good(), good(), calls=(plain,))
    with_eps = result(tmp_path, skipped(), good(), calls=(other,))
    assert configs_by_key(alone)[SMALL]["kwargs"] == {"BK": 32}
    assert configs_by_key(alone, with_eps)[SMALL]["kwargs"] == {"BK": 64}


def test_a_key_that_one_place_does_not_have_is_left_out(tmp_path: Path) -> None:
    """A key that was not launched on every target is left out."""
    here, there = at(tmp_path, 64, good()), at(tmp_path, 64, good(), target="sm80")
    only_here = at(tmp_path, 256, good())
    assert list(configs_by_key(here, there, only_here)) == [SMALL]
    reason = "no launch with this key is known under triton==3.5.1 on sm80"
    assert left_out(here, there, only_here) == [reason]


def test_a_fallback_is_written_only_for_the_launch_that_it_compiles_for(tmp_path: Path) -> None:
    """A fallback is written only for the head size it was found at."""
    small, large = at(tmp_path, 64, fatal(), fatal()), at(tmp_path, 256, fatal(), fatal())
    place = (small.toolchain, small.target)
    settings = {"BK": 64, "num_warps": 8, "num_stages": 3}
    use = Fallback(small.kernel, None, *place, settings, {"num_warps": 4}, 1.0, places=(place,))
    configs = configs_by_key(replace(small, fallbacks=(use,)), large)
    assert list(configs) == [SMALL]
    assert (configs[SMALL]["kwargs"], configs[SMALL]["num_warps"]) == ({"BK": 64}, 4)


def test_what_fla_does_not_load_from_a_file_is_not_written(tmp_path: Path) -> None:
    """A configuration with maxnreg is left out for releases where FLA ignores it."""
    config = {**CONFIGS[0], "maxnreg": 64}
    old = result(tmp_path, good(), configs=(config,), toolchain="triton==3.4.0")
    assert left_out(old) == ["its configurations have settings that FLA does not load from a file"]
    new = result(tmp_path, good(), configs=(config,))
    assert configs_by_key(new)[SMALL]["maxnreg"] == 64


def test_two_kernels_of_one_name_share_a_file(tmp_path: Path) -> None:
    """A file that an unexamined kernel would read too is not written."""
    digest_in_file = result(tmp_path, good(), good())
    assert left_out(digest_in_file, reading=("made:kernel",)) == []
    assert left_out(digest_in_file, reading=("made:kernel", "other:kernel")) == [
        "other:kernel reads the same file and was not examined"
    ]
    other = replace(result(tmp_path, skipped(), good()), kernel="other:kernel")
    configs = configs_by_key(digest_in_file, other, reading=("made:kernel", "other:kernel"))
    assert configs[SMALL]["kwargs"] == {"BK": 64}


def test_dtypes_of_a_key_come_in_the_order_of_the_call(tmp_path: Path) -> None:
    """The key lists dtypes in the order of the host's arguments."""
    launch = tuned_launch(tmp_path, call(g={"dtype": "fp32", "align": 16}))
    arguments = {name: ast.Constant(0) for name in ("g", "x", "T")}
    (other,) = KeyEvidence(
        replace(launch, hosts=(HostLaunch(arguments),)), Version("3.5.1")
    ).tuning_keys(launch.observed_calls[0])
    (own,) = KeyEvidence(launch, Version("3.5.1")).tuning_keys(launch.observed_calls[0])
    assert (own.dtypes, other.dtypes) == (("bf16", "fp32"), ("fp32", "bf16"))


def test_a_key_at_fault_is_the_reason_for_what_would_compile(tmp_path: Path) -> None:
    """A key fault is the reason for leaving out configurations that compile."""
    fault = {"key": "H", "want": "H", "got": None, "fault": "past-end"}
    facts = [{"facts": {"keys": [fault]}}]
    keys = failure("FC601").with_(findings=facts)
    digest_in_file = result(tmp_path, good(), good(), keys=keys, toolchain="triton==3.1.0")
    lines = "".join(emit.python([digest_in_file])).splitlines()
    (first, _) = (line for line in lines if line.startswith("# Left out: "))
    assert "): the run ends: key H is looked up past the end" in first


def test_python_names_what_it_leaves_out_and_the_sizes(tmp_path: Path) -> None:
    """Each configuration left out has its reason in a comment."""
    first_result = result(tmp_path, good(), skipped())
    second_result = result(tmp_path, good(), good(), configs=(CONFIGS[0], THREE[2]))
    text = "".join(emit.python([first_result, second_result]))
    assert "# Examined: H=4 K=64 USE_G=False bf16.\n" in text
    first, second = (line for line in text.splitlines() if line.startswith("# Left out: "))
    assert "{'BK': 64}, num_warps=8, num_stages=3): FC501 out of resource: shared memory" in first
    assert second.endswith("is not in the list of every release and target")
