"""Launches in fp16 that are derived from those of the same call in bf16."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flacheck.guest.recorder.journal import Journal
from flacheck.guest.search.derived_launches import DerivedLaunches
from flacheck.guest.search.trust import LaunchTrust, Rank


class Calls:
    """Calls that launch kernels, and the launches file that they lead to."""

    def __init__(self, file: Path, first_dtype: str) -> None:
        self._file = file
        self._journal = Journal(str(file), None, "real")
        self._trust = LaunchTrust(SimpleNamespace(journal=self._journal))  # type: ignore[arg-type]
        self.derived = DerivedLaunches(self._journal, self._trust, first_dtype)

    def call(self, name: str, dtype: str, *kernels: str, sums: str = "fp32", size: int = 1) -> None:
        """Launch kernels with a tensor in the call's dtype, and one in that of `sums`."""
        for kernel in kernels:
            args = {"x": {"dtype": dtype}, "sums": {"dtype": sums}, "n": {"int": size}}
            line = {"kernel": kernel, "source": kernel, "launch": {"args": args}}
            remarks = {"by": f"{name} {dtype}"}
            self._journal.launch(line, f"text of {kernel}", remarks, dict, (name,))
            self._trust.add_kernel(kernel)
        self.derived.end_call(name, dtype, Rank.DOCUMENTED, False)
        self._trust.end_call(Rank.DOCUMENTED)

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
    assert calls.derived.derive("wide", "fp16", "wide fp16") == 1
    made.call("wide", "fp16", "m:k", size=2)
    assert calls.launches() == made.launches()
    assert [line["by"] for line in calls.launches()][-1] == "wide fp16"


def test_a_kernel_is_compared_in_one_call_before_its_launches_are_derived(calls: Calls) -> None:
    """A call of another kernel proves nothing."""
    calls.call("f", "bf16", "m:k")
    calls.call("g", "bf16", "m:k", "m:other", size=2)
    assert calls.derived.derive("f", "fp16", "f") == 0
    calls.call("f", "fp16", "m:k")
    assert calls.derived.derive("g", "fp16", "g") == 0


def test_a_kernel_whose_host_names_a_dtype_is_called(calls: Calls) -> None:
    """One difference is enough, in whichever call."""
    calls.call("f", "bf16", "m:k")
    calls.call("g", "bf16", "m:k", sums="bf16", size=2)
    calls.call("h", "bf16", "m:k", size=3)
    calls.call("f", "fp16", "m:k")
    calls.call("g", "fp16", "m:k", sums="bf16", size=2)
    assert calls.derived.derive("h", "fp16", "h") == 0


def test_only_dtypes_of_one_size_are_derived(tmp_path: Path, calls: Calls) -> None:
    """Tensors of another size lie in memory in another way."""
    calls.call("f", "bf16", "m:k")
    calls.call("f", "fp32", "m:k")
    assert calls.derived.derive("f", "fp32", "f") == 0
    single = Calls(tmp_path / "single.jsonl", "fp32")
    single.call("f", "fp32", "m:k")
    assert single.derived.derive("f", "fp16", "f") == 0
    assert calls.derived.derive("unknown", "fp16", "f") == 0
