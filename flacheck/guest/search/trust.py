"""Trust in launches by the calls that made them, and the choice of the launches to keep.

Arguments are inferred and may be wrong: a failed call, or a call of one of a package's inner
functions, can launch a kernel with dtypes that never occur together. Such launches are kept, and
marked, only if there are no better launches of that kernel. Layers and public functions compute the
arguments of their kernels: where they pass a pointer, a number is wrong, and where they pass a
tensor in fp32, another dtype is wrong.
"""

import enum
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..recorder import frontend
from ..recorder.recorder import Recorder

_Line = dict[str, Any]


class Rank(enum.IntEnum):
    """The kinds of calls; the most trusted kind is first."""

    LAYER = 0
    OUTER = 1
    # An outer operator that functions of its package call, too.
    SHARED = 2
    INNER = 3
    FAILED = 4
    # A kernel without its host function, with arguments that its own code implies.
    ALONE = 5


# How a launch was made, in the words of a launches file.
_CALL_NAMES = {
    Rank.LAYER: "layer",
    Rank.OUTER: "plain call",
    Rank.SHARED: "plain call",
    Rank.INNER: "inner function",
    Rank.FAILED: "failed call",
    Rank.ALONE: "alone",
}


@dataclass(frozen=True)
class CallTrust:
    """How far the launches of a call are trusted.

    Attributes:
        rank: the kind of the call.
        has_guesses: True if an argument was inferred without any evidence in the package.
        has_guessed_constants: True if such an argument was not a tensor.
        sizes_from: the source of the sizes.
    """

    rank: Rank
    has_guesses: bool = False
    has_guessed_constants: bool = False
    sizes_from: str = ""

    @property
    def is_certain(self) -> bool:
        """True if the launches need no check by Triton's front end."""
        return self.rank <= Rank.OUTER and not self.has_guesses

    @property
    def is_computed(self) -> bool:
        """True if the call did not fail and no constant of it was invented."""
        return self.rank != Rank.FAILED and not self.has_guessed_constants


class LaunchTrust:
    """Records which calls made each launch, also for launches that were written before.

    Attributes:
        latest: the identity of the launch that was written last.
        answer_about: returns the error of Triton's front end about a launch, None for one that it
            accepts, and `...` for one that it was not asked about.
    """

    def __init__(self, recorder: Recorder) -> None:
        # The launches since the last end of a call, in their order.
        self._launches_of_call: dict[str, None] = {}
        # The most trusted call of each launch.
        self._calls: dict[str, CallTrust] = {}
        self._kernels_of_call: set[str] = set()
        # Launches of at least one call without inferred arguments.
        self._certain: set[str] = set()
        # Launches of at least one call whose host code ran with constants that are no guesses.
        self._computed: set[str] = set()
        self._journal = recorder.journal
        self._journal.on_launch = self._add_launch
        self.latest = ""
        self.answer_about: Callable[[str], Any] = lambda identity: None

    def _add_launch(self, identity: str) -> None:
        self._launches_of_call[identity] = None
        self.latest = identity

    def add_kernel(self, kernel: str) -> None:
        """Note the kernel of the latest launch."""
        self._kernels_of_call.add(kernel)

    def end_call(self, call: CallTrust) -> frozenset[str]:
        """Rank the launches since the last end of a call and return their kernels."""
        kernels = frozenset(self._kernels_of_call)
        for identity in self._launches_of_call:
            if call.rank < self._rank(identity) or identity not in self._calls:
                self._calls[identity] = call
        if call.is_certain:
            self._certain.update(self._launches_of_call)
        if call.is_computed:
            self._computed.update(self._launches_of_call)
        self._launches_of_call.clear()
        self._kernels_of_call.clear()
        return kernels

    def remove_untrusted(self, path: str) -> None:
        """Rewrite the launches file with the most trusted launches of each kernel."""
        # A launches file without launches still has a header.
        self._journal.begin()
        with open(path, encoding="utf-8") as file:
            entries = [_FileLine(json.loads(text), text) for text in file]
        launches = [entry.line for entry in entries if "kernel" in entry.line]
        trusted = list(self._trusted_launches(launches))
        kept_ids = {line["id"] for line in self._without_refused(trusted)}
        _move_sources(entries, kept_ids)
        kept_paths: set[str] = set()
        for entry in entries:
            if entry.launch_id in kept_ids:
                kept_paths.update(entry.line.get("paths", ()))
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            for entry in entries:
                is_kept = "schema" in entry.line or entry.launch_id in kept_ids
                if is_kept or entry.line.get("path") in kept_paths:
                    file.write(self._marked_text(entry))
        os.replace(f"{path}.part", path)

    def _trusted_launches(self, launches: list[_Line]) -> Iterator[_Line]:
        """Yield the launches to keep."""
        best_ranks: dict[str, Rank] = {}
        # The properties of arguments that layers and public functions pass, by kernel and name.
        computed: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for line in launches:
            kernel = line["kernel"]
            rank = self._rank(line["id"])
            best_ranks[kernel] = min(rank, best_ranks.get(kernel, rank))
            for name, value, computing_rank in _argument_properties(line):
                if rank <= computing_rank:
                    computed[kernel, name].add(value)
        for line in launches:
            kernel = line["kernel"]
            rank = self._rank(line["id"])
            if rank > max(best_ranks[kernel], Rank.SHARED):
                continue
            differs = False
            for name, value, computing_rank in _argument_properties(line):
                if rank > computing_rank:
                    differs |= value not in computed.get((kernel, name), (value,))
            if not differs:
                yield line

    def _without_refused(self, launches: list[_Line]) -> Iterator[_Line]:
        """Yield launches without made-up ones that the front end refuses if it accepts others.

        The first launch of a kernel in each dtype is compiled later, so it should be accepted. A
        kernel that was launched alone and never accepted has no launch.
        """
        accepted_kernels = set()
        for line in launches:
            if self.answer_about(line["id"]) is None:
                accepted_kernels.add(line["kernel"])
        for line in launches:
            identity = line["id"]
            if line["kernel"] not in accepted_kernels:
                if self._rank(identity) != Rank.ALONE:
                    yield line
            elif self.answer_about(identity) in (None, ...) or not self._is_made_up(identity):
                yield line

    def _marked_text(self, entry: "_FileLine") -> str:
        """Return the text of a line; that of a launch gets marks of its call."""
        if "kernel" not in entry.line:
            return entry.text
        identity = entry.line["id"]
        marks: _Line = {
            "made_up": self._is_made_up(identity),
            "call": _CALL_NAMES[self._rank(identity)],
        }
        if identity in self._calls and self._calls[identity].sizes_from:
            marks["sizes_from"] = self._calls[identity].sizes_from
        # To write a whole launch again takes far longer.
        more = json.dumps(marks, ensure_ascii=False).removeprefix("{")
        return f"{entry.text.rstrip().removesuffix('}')}, {more}\n"

    def _is_made_up(self, identity: str) -> bool:
        """Return True for a launch that may depend on constants that nobody gave.

        A launch that the front end refuses may have inferred tensors of a wrong dtype. A None that
        a public operator passes is the operator's own.
        """
        if identity in self._certain:
            return False
        answer = self.answer_about(identity)
        if identity not in self._computed or answer in (None, ...):
            return identity not in self._computed
        return self._rank(identity) > Rank.OUTER or not frontend.is_about_none(answer)

    def _rank(self, identity: str) -> Rank:
        if identity not in self._calls:
            return Rank.FAILED
        return self._calls[identity].rank


@dataclass
class _FileLine:
    """A line of a launches file and its text."""

    line: _Line
    text: str

    @property
    def launch_id(self) -> str | None:
        """The identity of the launch that the line is or belongs to."""
        identity: str | None = self.line.get("of", self.line.get("id"))
        return identity


def _move_sources(entries: Iterable[_FileLine], kept_ids: set[str]) -> None:
    """Move the text of each source to the first kept line that uses it."""
    entries = list(entries)
    holders = {entry.line["source"]: entry for entry in entries if "text" in entry.line}
    for entry in entries:
        if entry.line.get("id") not in kept_ids:
            continue
        holder = holders.pop(entry.line.get("source", ""), entry)
        if holder is not entry:
            entry.line["text"] = holder.line.pop("text")
            for changed_entry in (entry, holder):
                changed_entry.text = json.dumps(changed_entry.line, ensure_ascii=False) + "\n"


def _argument_properties(line: _Line) -> Iterator[tuple[str, str, Rank]]:
    """Yield properties of a launch's arguments, each with the last rank that computes them.

    They are numbers and pointers, which layers compute, and dtypes: "the launch's" or another one.
    A launch in fp32 yields no dtypes: an argument in fp32 may have the launch's dtype or its own.
    """
    dtypes: dict[str, str] = {}
    for name, value in line["launch"]["args"].items():
        if isinstance(value, dict) and "dtype" in value:
            dtypes[name] = str(value["dtype"])
            yield f"{name}, kind", "pointer", Rank.LAYER
        elif isinstance(value, dict) and "constexpr" not in value:
            yield f"{name}, kind", "number", Rank.LAYER
    launch_dtype = None
    for dtype in dtypes.values():
        if dtype in ("bf16", "fp16") or dtype.startswith("fp8"):
            launch_dtype = dtype
            break
    for name, dtype in dtypes.items():
        if launch_dtype is not None:
            yield name, "the launch's" if dtype == launch_dtype else dtype, Rank.OUTER
