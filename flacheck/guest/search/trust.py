"""Trust in launches by the calls that made them, and the choice of the launches to keep.

Arguments are inferred and may be wrong: a failed call, or a call of one of a package's inner
functions, can launch a kernel with dtypes that never occur together. Such launches are kept, and
marked, only if there are no better launches of that kernel. A layer makes the arguments of its
kernels itself: where it passes a pointer, a number is wrong.

A function may be called by users and by the package's own functions, which pass computed values:
where those calls pass a tensor in fp32, another dtype is wrong.
"""

import enum
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..recorder.recorder import Recorder

_Line = dict[str, Any]
# What is added to the line of a launch.
_MARKS = ("made_up", "call", "sizes_from")
# An argument's name with a property of its value.
_Property = tuple[str, str]


class Rank(enum.IntEnum):
    """The kinds of calls; the most trusted kind is first."""

    LAYER = 0
    # An outer operator, called as documented.
    DOCUMENTED = 1
    OUTER = 2
    # An outer operator that functions of its package call, too.
    SHARED = 3
    # An inner function, with arguments that the package passed to it.
    PASSED = 4
    INNER = 5
    FAILED = 6
    # A kernel without its host function, with arguments that its own code implies.
    ALONE = 7


# How a launch was made, in the words of a launches file.
_CALL_NAMES = {
    Rank.LAYER: "layer",
    Rank.DOCUMENTED: "documented call",
    Rank.OUTER: "plain call",
    Rank.SHARED: "plain call",
    Rank.PASSED: "inner function",
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
        return self.rank <= Rank.DOCUMENTED and not self.has_guesses

    @property
    def is_public(self) -> bool:
        """True if a public operator computed the launches from constants that are no guesses."""
        return self.rank <= Rank.SHARED and not self.has_guessed_constants

    @property
    def is_computed(self) -> bool:
        """True if the host code ran to its end with constants that are no guesses."""
        return self.rank < Rank.FAILED and not self.has_guessed_constants


class LaunchTrust:
    """Records which calls made each launch, also for launches that were written before.

    Attributes:
        latest: the identity of the launch that was written last.
        is_refused: returns True for a launch that Triton's front end refuses.
        is_accepted: returns True for a launch that it was asked about and accepts.
        is_refused_for_none: returns True for a launch whose None the kernel does not take.
    """

    def __init__(self, recorder: Recorder) -> None:
        # In the order of the launches.
        self._launches_of_call: dict[str, None] = {}
        self._ranks: dict[str, Rank] = {}
        self._kernels: dict[str, str] = {}
        # The latest launches, whose kernel is not noted yet.
        self._unnamed: list[str] = []
        self._best_ranks: dict[str, Rank] = {}
        # Launches of at least one call without inferred arguments.
        self._certain: set[str] = set()
        # Launches of at least one call whose host code ran with constants that are no guesses.
        self._computed: set[str] = set()
        # Those of at least one call of a public operator.
        self._public: set[str] = set()
        # The source of the sizes of each launch's most trusted call.
        self._size_sources: dict[str, str] = {}
        self._journal = recorder.journal
        self._journal.on_launch = self._add_launch
        self.latest = ""
        self.is_refused: Callable[[str], bool] = lambda identity: False
        self.is_accepted: Callable[[str], bool] = lambda identity: True
        self.is_refused_for_none: Callable[[str], bool] = lambda identity: False

    def _add_launch(self, identity: str) -> None:
        self._launches_of_call[identity] = None
        self._unnamed.append(identity)
        self.latest = identity

    def add_kernel(self, kernel: str) -> None:
        """Note the kernel of the latest launches, which differ in their configurations."""
        for identity in self._unnamed:
            self._kernels[identity] = kernel
        self._unnamed.clear()

    @property
    def launches_of_call(self) -> tuple[str, ...]:
        """The identities of the launches since the last end of a call, in their order."""
        return tuple(self._launches_of_call)

    def kernel_of(self, identity: str) -> str:
        """Return the kernel of a launch."""
        return self._kernels.get(identity, "")

    def kernels_up_to(self, rank: Rank) -> set[str]:
        """Return the kernels with a launch of at least this trust."""
        return {kernel for kernel, best in self._best_ranks.items() if best <= rank}

    def end_call(self, call: CallTrust) -> int:
        """Rank the launches since the last end of a call.

        Return the number of those that are kept and were not, or only as made up, before this
        call.
        """
        rank = call.rank
        new_launches = 0
        for identity in self._launches_of_call:
            kernel = self._kernels.get(identity, "")
            best_rank = min(rank, self._best_ranks.get(kernel, rank))
            self._best_ranks[kernel] = best_rank
            worst_kept = max(best_rank, Rank.SHARED)
            was_kept = identity in self._ranks and self._ranks[identity] <= worst_kept
            is_newly_certain = call.is_certain and identity not in self._certain
            if rank <= worst_kept and (not was_kept or is_newly_certain):
                new_launches += 1
            if rank < self._ranks.get(identity, len(Rank)):
                self._ranks[identity] = rank
                self._size_sources[identity] = call.sizes_from
        if call.is_certain:
            self._certain.update(self._launches_of_call)
        if call.is_computed:
            self._computed.update(self._launches_of_call)
        if call.is_public:
            self._public.update(self._launches_of_call)
        self._launches_of_call.clear()
        return new_launches

    def remove_untrusted(self, path: str) -> None:
        """Rewrite the launches file with the most trusted launches of each kernel."""
        if not self._ranks and not self._launches_of_call:
            # A launches file without launches still has a header.
            self._journal.begin()
            return
        with open(path, encoding="utf-8") as file:
            entries = list(_read_entries(file))
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
                    file.write(entry.written())
        os.replace(f"{path}.part", path)

    def _trusted_launches(self, launches: list[_Line]) -> Iterator[_Line]:
        """Yield the launches to keep; mark each launch as made up or not."""
        best_ranks: dict[str, Rank] = {}
        layers = _ArgumentProperties()
        outer_operators = _ArgumentProperties()
        for line in launches:
            kernel = line["kernel"]
            rank = self._rank(line["id"])
            best_ranks[kernel] = min(rank, best_ranks.get(kernel, rank))
            line["made_up"] = self._is_made_up(line["id"])
            line["call"] = _CALL_NAMES[rank]
            if self._size_sources.get(line["id"]):
                line["sizes_from"] = self._size_sources[line["id"]]
            if rank == Rank.LAYER:
                layers.add(line, _argument_kinds(line))
            if rank <= Rank.OUTER:
                outer_operators.add(line, _argument_dtypes(line))
        for line in launches:
            rank = self._rank(line["id"])
            if rank > max(best_ranks[line["kernel"]], Rank.SHARED):
                continue
            if rank != Rank.LAYER and not layers.agree(line, _argument_kinds(line)):
                continue
            if rank == Rank.SHARED and not outer_operators.agree(line, _argument_dtypes(line)):
                continue
            yield line

    def _without_refused(self, launches: list[_Line]) -> Iterator[_Line]:
        """Yield launches without made-up ones that the front end refuses if it accepts others.

        The first launch of a kernel in each dtype is compiled later, so it should be accepted. A
        kernel that was launched alone and never accepted has no launch.
        """
        accepted_kernels = set()
        for line in launches:
            if self.is_accepted(line["id"]):
                accepted_kernels.add(line["kernel"])
        for line in launches:
            is_wrong = line["id"] not in self._certain and self._is_refused_as_guessed(line["id"])
            has_accepted = line["kernel"] in accepted_kernels
            if has_accepted and is_wrong:
                continue
            if not has_accepted and self._rank(line["id"]) == Rank.ALONE:
                continue
            yield line

    def _is_made_up(self, identity: str) -> bool:
        """Return True for a launch alone, or one that may depend on constants that nobody gave.

        A launch that the front end refuses may have inferred tensors of a wrong dtype.
        """
        if identity in self._certain:
            return False
        return identity not in self._computed or self._is_refused_as_guessed(identity)

    def _is_refused_as_guessed(self, identity: str) -> bool:
        """Return True for a refused launch whose inferred tensors may be to blame.

        A None that a public operator passes to its kernel is the package's.
        """
        if not self.is_refused(identity):
            return False
        return identity not in self._public or not self.is_refused_for_none(identity)

    def _rank(self, identity: str) -> Rank:
        return self._ranks.get(identity, Rank.FAILED)


@dataclass
class _FileLine:
    """A line of a launches file, with its text there unless it has changed otherwise."""

    line: _Line
    text: str | None

    @property
    def launch_id(self) -> str | None:
        """The identity of the launch that the line is or belongs to."""
        identity: str | None = self.line.get("of", self.line.get("id"))
        return identity

    def written(self) -> str:
        """Return the new text of the line; to write a launch again takes far longer than this."""
        if self.text is None:
            return json.dumps(self.line, ensure_ascii=False) + "\n"
        marks = {name: self.line[name] for name in _MARKS if name in self.line}
        if not marks:
            return self.text
        more = json.dumps(marks).removeprefix("{")
        return f"{self.text.rstrip().removesuffix('}')}, {more}\n"


def _read_entries(file: Iterable[str]) -> Iterator[_FileLine]:
    """Yield the lines of a launches file, with the launches that are derived from others."""
    texts: dict[str, str] = {}
    for text in file:
        line = json.loads(text)
        if "derived" in line:
            yield _FileLine(_derived_line(line, texts[line["from"]]), None)
            continue
        if "kernel" in line:
            texts[line["id"]] = text
        yield _FileLine(line, text)


def _derived_line(line: _Line, original_text: str) -> _Line:
    """Return the launch that a line derives from another one."""
    derived: _Line = json.loads(original_text.replace(*line["replace"]))
    derived.update(id=line["derived"], by=line["by"])
    if "element_scale" in line:
        _scale_storages(derived, json.loads(original_text), line["element_scale"])
    # The line of the launch has them.
    derived.pop("defined", None)
    derived.pop("text", None)
    return derived


def _scale_storages(derived: _Line, original: _Line, scale: int) -> None:
    """Enlarge the storages of tensors that have larger elements than in the original launch."""
    original_dtypes = dict(_tensor_dtypes(original["launch"]["args"]))
    scaled: set[int] = set()
    for path, dtype in _tensor_dtypes(derived["launch"]["args"]):
        if dtype != original_dtypes[path] and path in derived["tensors"]:
            scaled.add(derived["tensors"][path]["storage"])
    for index in scaled:
        derived["storages"][index] *= scale


def _tensor_dtypes(arguments: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the path and the dtype of each tensor: `name`, or `name[0]` in a tuple."""
    for path, value in arguments.items():
        if not isinstance(value, dict):
            continue
        if "dtype" in value:
            yield path, value["dtype"]
        items = value.get("tuple", ())
        yield from _tensor_dtypes({f"{path}[{index}]": item for index, item in enumerate(items)})


def _move_sources(entries: list[_FileLine], kept_ids: set[str]) -> None:
    """Move the text of each source to the first kept line that uses it."""
    holders: dict[str, _FileLine] = {}
    for entry in entries:
        if "text" in entry.line:
            holders[entry.line["source"]] = entry
    for entry in entries:
        if entry.line.get("id") not in kept_ids:
            continue
        holder = holders.pop(entry.line.get("source", ""), entry)
        if holder is not entry:
            entry.line["text"] = holder.line.pop("text")
            entry.text = holder.text = None


class _ArgumentProperties:
    """The properties of the arguments that some calls pass, by kernel and argument."""

    def __init__(self) -> None:
        self._properties: dict[tuple[str, str], set[str]] = {}

    def add(self, line: _Line, properties: Iterable[_Property]) -> None:
        """Add the properties of a launch's arguments."""
        for name, value in properties:
            self._properties.setdefault((line["kernel"], name), set()).add(value)

    def agree(self, line: _Line, properties: Iterable[_Property]) -> bool:
        """Return True if no property differs from those of arguments that the calls pass."""
        for name, value in properties:
            expected = self._properties.get((line["kernel"], name))
            if expected is not None and value not in expected:
                return False
        return True


def _argument_kinds(line: _Line) -> Iterator[_Property]:
    """Yield the arguments that are pointers or numbers, each with its kind."""
    for name, value in line["launch"]["args"].items():
        if isinstance(value, dict) and "dtype" in value:
            yield name, "pointer"
        elif isinstance(value, dict) and "constexpr" not in value:
            yield name, "number"


def _argument_dtypes(line: _Line) -> Iterator[_Property]:
    """Yield the arguments that are pointers, each with its dtype or "the launch's".

    Yield nothing for a launch in fp32, whose dtype cannot be told from that of an argument.
    """
    dtypes: dict[str, str] = {}
    for name, value in line["launch"]["args"].items():
        if isinstance(value, dict) and "dtype" in value:
            dtypes[name] = str(value["dtype"])
    launch_dtype = None
    for dtype in dtypes.values():
        if dtype in ("bf16", "fp16") or dtype.startswith("fp8"):
            launch_dtype = dtype
            break
    if launch_dtype is None:
        return
    for name, dtype in dtypes.items():
        if dtype == launch_dtype:
            yield name, "the launch's"
        else:
            yield name, dtype
