"""What is emitted: configurations that run everywhere, as Python and as files for FLA."""

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
    call,
    constexpr,
    fatal,
    good,
    result,
    skipped,
    tuned,
)


def test_what_is_emitted_runs_everywhere(tmp_path: Path) -> None:
    """A configuration that one of two releases does not run is no choice; one that spills comes
    last.
    """
    here = result(tmp_path, good(resources={**RESOURCES, "spills": 4}), good(), good())
    there = result(tmp_path, good(), good(), fatal(), toolchain="triton==3.2.0")
    (choice,) = choices([here, there])
    assert [config["kwargs"]["BK"] for config in choice.configs] == [64, 32]
    assert choice.where == "triton==3.5.1, triton==3.2.0 on sm90"


def test_what_gains_nothing_is_emitted_only_where_nothing_else_runs(tmp_path: Path) -> None:
    """A second binary that asks for what the first asks for is left out."""
    same = {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 3}
    (choice,) = choices([result(tmp_path, good(), good(), configs=(CONFIGS[0], same))])
    assert choice.configs == [CONFIGS[0]]
    other = result(tmp_path, fatal(), good(), configs=(CONFIGS[0], same))
    both = result(tmp_path, good(), good(), configs=(CONFIGS[0], same))
    (choice,) = choices([other, both])
    assert choice.configs == [same]


def test_a_fallback_stands_in_where_nothing_runs(tmp_path: Path) -> None:
    """If it is a configuration, and compiles at every place."""
    failing = result(tmp_path, fatal(), fatal())
    place = ((failing.toolchain, failing.target),)
    settings = {"BK": 64, "num_warps": 8, "num_stages": 3}
    use = Fallback(failing.kernel, None, *place[0], settings, {"num_warps": 4}, 1.0, places=place)
    other = replace(use, use={"dtype": "fp32"})
    elsewhere = replace(use, use={"num_warps": 2}, places=())
    (choice,) = choices([replace(failing, fallbacks=(other, elsewhere, use))])
    assert choice.configs == [{"kwargs": {"BK": 64}, "num_warps": 4, "num_stages": 3}]


def test_python_runs_as_pasted(tmp_path: Path) -> None:
    """Under a real Triton it is a list of its configurations, with the language's constants."""
    pytest.importorskip("triton")
    typed = {"kwargs": {"BK": 32, "ACC": {"dtype": "fp32"}}, "num_warps": 4, "num_stages": 2}
    text = "".join(emit.python([result(tmp_path, good(), good(), configs=(typed, CONFIGS[1]))]))
    names: dict[str, Any] = {}
    exec(compile(text, "pasted", "exec"), names)
    one, other = names["KERNEL_CONFIGS"]
    assert one.kwargs == {"BK": 32, "ACC": names["tl"].float32}
    assert (one.num_warps, one.num_stages) == (4, 2)
    assert other.kwargs == {"BK": 64}
    assert (other.num_warps, other.num_stages) == (8, 3)


@pytest.mark.parametrize(
    ("dtype", "spelt"),
    [
        ("bf16", "tl.bfloat16"),
        ("i1", "tl.int1"),
        ("i32", "tl.int32"),
        ("u8", "tl.uint8"),
        ("fp8e4nv", "tl.float8e4nv"),
    ],
)
def test_dtypes_are_spelt_as_in_the_language(tmp_path: Path, dtype: str, spelt: str) -> None:
    """`tl.int32`, not `i32`."""
    config = {"kwargs": {"ACC": {"dtype": dtype}}, "num_warps": 4, "num_stages": 2}
    text = "".join(emit.python([result(tmp_path, good(), configs=(config,))]))
    assert f"triton.Config({{'ACC': {spelt}}}, num_warps=4, num_stages=2)," in text


def written(*results: TunerResult, reading: tuple[str, ...] = ()) -> dict[str, Any]:
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
    """By the MD5 of the key as FLA writes it; a default would be loaded for unknown sizes."""
    (file,) = emit.fla([result(tmp_path, good(), good())])
    document = json.loads(file.text())
    assert file.name == "kernel.json"
    assert document.keys() == {"kernel_name", "triton_version", "autotune_entries"}
    digest = hashlib.md5(b'[4,64,false,"torch.bfloat16"]').hexdigest()
    ((found, entry),) = document["autotune_entries"].items()
    assert (found, entry["autotune_key"]) == (digest, [4, 64, False, "torch.bfloat16"])
    assert entry["config"]["kwargs"] == {"BK": 32}


def test_each_key_gets_a_configuration_that_runs_at_its_own_sizes(tmp_path: Path) -> None:
    """What needs too much memory for a large head is only written for the small one."""
    small, large = at(tmp_path, 64, good(), skipped()), at(tmp_path, 256, skipped(), good())
    configs = written(small, large)
    assert configs[SMALL]["kwargs"] == {"BK": 32}
    assert configs[LARGE]["kwargs"] == {"BK": 64}


def test_a_key_at_which_nothing_runs_is_left_out_with_the_reason(tmp_path: Path) -> None:
    """The others are written, and FLA tunes for that one as without a file."""
    small, large = at(tmp_path, 64, good(), good()), at(tmp_path, 256, skipped(), skipped())
    assert list(written(small, large)) == [SMALL]
    (why,) = left_out(small, large)
    assert why.startswith("no configuration runs: FC501 out of resource: shared memory under")


def test_a_configuration_runs_in_every_launch_with_its_key(tmp_path: Path) -> None:
    """An argument that is in no key makes another binary of the same key."""
    plain, other = call(), call(eps=constexpr(1))
    alone = result(tmp_path, good(), good(), calls=(plain,))
    with_eps = result(tmp_path, skipped(), good(), calls=(other,))
    assert written(alone)[SMALL]["kwargs"] == {"BK": 32}
    assert written(alone, with_eps)[SMALL]["kwargs"] == {"BK": 64}


def test_a_key_that_one_place_does_not_have_is_left_out(tmp_path: Path) -> None:
    """Nothing is known of it there."""
    here, there = at(tmp_path, 64, good()), at(tmp_path, 64, good(), target="sm80")
    only_here = at(tmp_path, 256, good())
    assert list(written(here, there, only_here)) == [SMALL]
    expected = "no launch with this key is known under triton==3.5.1 on sm80"
    assert left_out(here, there, only_here) == [expected]


def test_a_fallback_is_written_only_for_the_launch_that_it_compiles_for(tmp_path: Path) -> None:
    """A search at one head size says nothing of another."""
    small, large = at(tmp_path, 64, fatal(), fatal()), at(tmp_path, 256, fatal(), fatal())
    place = (small.toolchain, small.target)
    settings = {"BK": 64, "num_warps": 8, "num_stages": 3}
    use = Fallback(small.kernel, None, *place, settings, {"num_warps": 4}, 1.0, places=(place,))
    configs = written(replace(small, fallbacks=(use,)), large)
    assert list(configs) == [SMALL]
    assert (configs[SMALL]["kwargs"], configs[SMALL]["num_warps"]) == ({"BK": 64}, 4)


def test_what_fla_does_not_load_from_a_file_is_not_written(tmp_path: Path) -> None:
    """It would launch another binary than the one that was compiled."""
    capped = {**CONFIGS[0], "maxnreg": 64}
    old = result(tmp_path, good(), configs=(capped,), toolchain="triton==3.4.0")
    assert left_out(old) == ["its configurations have settings that FLA does not load from a file"]
    new = result(tmp_path, good(), configs=(capped,))
    assert written(new)[SMALL]["maxnreg"] == 64


def test_two_kernels_of_one_name_share_a_file(tmp_path: Path) -> None:
    """One that was not examined may read what was meant for the other."""
    found = result(tmp_path, good(), good())
    assert left_out(found, reading=("made:kernel",)) == []
    assert left_out(found, reading=("made:kernel", "other:kernel")) == [
        "other:kernel reads the same file and was not examined"
    ]
    other = replace(result(tmp_path, skipped(), good()), kernel="other:kernel")
    configs = written(found, other, reading=("made:kernel", "other:kernel"))
    assert configs[SMALL]["kwargs"] == {"BK": 64}


def test_dtypes_of_a_key_come_in_the_order_of_the_call(tmp_path: Path) -> None:
    """Host code may pass the tensors in another order than the signature has them."""
    made = tuned(tmp_path, call(g={"dtype": "fp32", "align": 16}))
    passed = {name: ast.Constant(0) for name in ("g", "x", "T")}
    (other,) = KeyEvidence(
        replace(made, hosts=(HostLaunch(passed),)), Version("3.5.1")
    ).tuning_keys(made.observed_calls[0])
    (own,) = KeyEvidence(made, Version("3.5.1")).tuning_keys(made.observed_calls[0])
    assert (own.dtypes, other.dtypes) == (("bf16", "fp32"), ("fp32", "bf16"))


def test_a_key_at_fault_is_the_reason_for_what_would_compile(tmp_path: Path) -> None:
    """The autotuner raises before it tries any configuration."""
    fault = {"key": "H", "want": "H", "got": None, "fault": "past-end"}
    facts = [{"facts": {"keys": [fault]}}]
    keys = failure("FC601").with_(findings=facts)
    found = result(tmp_path, good(), good(), keys=keys, toolchain="triton==3.1.0")
    lines = "".join(emit.python([found])).splitlines()
    (first, _) = (line for line in lines if line.startswith("# Left out: "))
    assert "): the run ends: key H is looked up past the end" in first


def test_python_names_what_it_leaves_out_and_the_sizes(tmp_path: Path) -> None:
    """Each configuration that is not in the list has its reason in a comment."""
    configs = (*CONFIGS, {"kwargs": {"BK": 32}, "num_warps": 4, "num_stages": 3})
    text = "".join(emit.python([result(tmp_path, good(), skipped(), good(), configs=configs)]))
    assert "# Examined: H=4 K=64 USE_G=False bf16.\n" in text
    first, second = (line for line in text.splitlines() if line.startswith("# Left out: "))
    assert "{'BK': 64}, num_warps=8, num_stages=3): FC501 out of resource: shared memory" in first
    assert "num_stages=3): asks for all that triton.Config({'BK': 32}, num_warps=4," in second
