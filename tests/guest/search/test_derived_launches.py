"""Launches in fp16 and fp32 that are derived from those of the same call in bf16."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flacheck.guest.recorder.journal import Journal
from flacheck.guest.search.derived_launches import CallKey, DerivedLaunches
from flacheck.guest.search.trust import CallTrust, LaunchTrust, Rank

WIDE = "wide"


class Calls:
    """Calls that launch kernels, and the launches file that they lead to."""

    def __init__(self, file: Path, first_dtype: str) -> None:
        self._file = file
        self._journal = Journal(str(file), None, "real")
        self._trust = LaunchTrust(SimpleNamespace(journal=self._journal))  # type: ignore[arg-type]
        self._derived = DerivedLaunches(self._journal, self._trust, first_dtype)

    def call(
        self,
        name: str,
        dtype: str,
        *kernels: str,
        sums: str = "fp32",
        size: int = 1,
        align: int = 16,
        plan: str = "plain",
        sets_dtype: bool = False,
    ) -> None:
        """Launch kernels with a tensor in the call's dtype, and one in that of `sums`."""
        for kernel in kernels:
            tensors = {"x": {"dtype": dtype, "align": align}, "sums": {"dtype": sums}}
            args = {**tensors, "n": {"int": size}}
            line = {"kernel": kernel, "source": kernel, "launch": {"args": args}}
            remarks = {"by": f"{name} {dtype}"}
            memory = functools.partial(self._memory, dtype, sums)
            self._journal.launch(line, f"text of {kernel}", remarks, memory, (name,))
            self._trust.add_kernel(kernel)
        key = CallKey(name, plan, sets_dtype)
        self._derived.end_call(key, dtype, CallTrust(Rank.DOCUMENTED))
        self._trust.end_call(CallTrust(Rank.DOCUMENTED))

    def _memory(self, *dtypes: str) -> dict[str, Any]:
        """Return storages of eight elements, one for each tensor."""
        storages = [32 if dtype == "fp32" else 16 for dtype in dtypes]
        return {"storages": storages, "tensors": {"x": {"storage": 0}, "sums": {"storage": 1}}}

    def derive(self, name: str, dtype: str, plan: str = "plain", sets_dtype: bool = False) -> int:
        return self._derived.derive(CallKey(name, plan, sets_dtype), dtype, f"{name} {dtype}")

    def launches(self) -> list[dict[str, Any]]:
        self._journal.flush()
        self._trust.remove_untrusted(str(self._file))
        lines = map(json.loads, self._file.read_text().splitlines())
        return [line for line in lines if "kernel" in line]


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path / "l.jsonl", "bf16")


def test_a_derived_launch_is_the_one_that_a_call_would_make(calls: Calls, tmp_path: Path) -> None:
    """Its identity, arguments, path and trust are equal, and its text is written once."""
    made = Calls(tmp_path / "made.jsonl", "bf16")
    for each in (calls, made):
        each.call("plain", "bf16", "m:k")
        each.call("wide", "bf16", "m:k", size=2)
        each.call("plain", "fp16", "m:k")
    assert calls.derive("wide", "fp16") == 1
    made.call("wide", "fp16", "m:k", size=2)
    assert calls.launches() == made.launches()
    assert [line["by"] for line in calls.launches()][-1] == "wide fp16"


def test_a_kernel_is_compared_in_one_call_before_its_launches_are_derived(calls: Calls) -> None:
    """A call of another kernel proves nothing."""
    calls.call("f", "bf16", "m:k")
    calls.call("g", "bf16", "m:k", "m:other", size=2)
    assert calls.derive("f", "fp16") == 0
    calls.call("f", "fp16", "m:k")
    assert calls.derive("g", "fp16") == 0


def test_a_kernel_whose_host_names_a_dtype_is_called(calls: Calls) -> None:
    """One difference is enough, in whichever call."""
    calls.call("f", "bf16", "m:k")
    calls.call("g", "bf16", "m:k", sums="bf16", size=2)
    calls.call("h", "bf16", "m:k", size=3)
    calls.call("f", "fp16", "m:k")
    calls.call("g", "fp16", "m:k", sums="bf16", size=2)
    assert calls.derive("h", "fp16") == 0


def test_a_kernel_that_differs_in_one_operator_is_derived_in_others_that_were_compared(
    calls: Calls,
) -> None:
    """An operator without a call of its own in the other dtype proves nothing."""
    for name in ("f", "g", "h"):
        calls.call(name, "bf16", "m:k", sums="bf16" if name == "g" else "fp32")
        calls.call(name, "bf16", "m:k", size=2, plan=WIDE)
    calls.call("f", "fp16", "m:k")
    calls.call("g", "fp16", "m:k", sums="bf16")
    derived = {name: calls.derive(name, "fp16", WIDE) for name in ("f", "g", "h")}
    assert derived == {"f": 1, "g": 0, "h": 0}


def test_larger_elements_take_more_memory(calls: Calls, tmp_path: Path) -> None:
    """A launch derived in fp32 is the one that a call would make, with its bytes of memory."""
    made = Calls(tmp_path / "made.jsonl", "bf16")
    for each in (calls, made):
        each.call("f", "bf16", "m:k")
        each.call("f", "bf16", "m:k", size=2, plan=WIDE)
        each.call("f", "fp32", "m:k")
    assert calls.derive("f", "fp32", WIDE) == 1
    made.call("f", "fp32", "m:k", size=2, plan=WIDE)
    assert calls.launches() == made.launches()
    assert [line["storages"] for line in calls.launches()][-1] == [32, 32]


def test_an_operator_is_called_once_before_it_is_trusted_in_fp32(calls: Calls) -> None:
    """It may refuse a dtype that another operator passes to the same kernel."""
    calls.call("inner", "bf16", "m:k")
    calls.call("outer", "bf16", "m:k", size=2)
    calls.call("outer", "bf16", "m:k", size=3, plan=WIDE)
    calls.call("inner", "fp32", "m:k")
    assert calls.derive("outer", "fp32") == 0
    calls.call("outer", "fp32", "m:k", size=2)
    assert calls.derive("outer", "fp32", WIDE) == 1


def test_an_argument_about_dtypes_needs_a_call_in_fp32(calls: Calls) -> None:
    """`residual_in_fp32` changes nothing where all is in fp32; fp16 is as large as bf16."""
    calls.call("f", "bf16", "m:k")
    calls.call("f", "bf16", "m:k", size=2, plan=WIDE, sets_dtype=True)
    calls.call("f", "fp32", "m:k")
    calls.call("f", "fp16", "m:k")
    assert calls.derive("f", "fp32", WIDE, sets_dtype=True) == 0
    assert calls.derive("f", "fp16", WIDE, sets_dtype=True) == 1


def test_the_alignment_of_larger_elements_is_seen_in_a_call(calls: Calls) -> None:
    """An offset of four elements is a multiple of 16 bytes in fp32, and not in bf16."""
    calls.call("f", "bf16", "m:k")
    calls.call("f", "bf16", "m:k", size=2, align=8, plan=WIDE)
    calls.call("f", "fp32", "m:k")
    assert calls.derive("f", "fp32", WIDE) == 0


def test_a_call_without_a_counterpart_in_the_first_dtype_is_made(
    tmp_path: Path, calls: Calls
) -> None:
    single = Calls(tmp_path / "single.jsonl", "fp32")
    single.call("f", "fp32", "m:k")
    assert single.derive("f", "fp16") == 0
    assert calls.derive("unknown", "fp16") == 0
