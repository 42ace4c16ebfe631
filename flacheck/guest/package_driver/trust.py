"""Which launches to keep: a kernel that an operator launched as its package does is not scanned as
we guessed it. Arguments are made up, and so may be wrong: a call that failed half-way, or one of a
package's inner functions, can launch a kernel with dtypes that never meet. Such launches stay only
where there are no better ones of that kernel, and are marked. A layer makes the arguments of its
kernels itself: where one passes a pointer, a number is wrong.

A function may be offered to users and called by the package's own functions as well, which hand it
what they computed: where those calls pass a tensor in fp32, another dtype is wrong."""

import enum
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from ..recorder.recorder import Recorder

Line = dict[str, Any]


class Rank(enum.IntEnum):
    """The kinds of call, from the one that is trusted most."""

    LAYER = 0
    # An outer operator, as its documentation says that it is called.
    DOCUMENTED = 1
    OUTER = 2
    # An outer operator that functions of its package call, too.
    SHARED = 3
    # An inner function, with what the package passed to it.
    PASSED = 4
    INNER = 5
    FAILED = 6


class Witness:
    """Notes in which calls a launch was made, also when it was written down long before."""

    def __init__(self, recorder: Recorder) -> None:
        self._during: set[str] = set()
        self._ranks: dict[str, Rank] = {}
        # The launches that some call made whose arguments are no guess.
        self._seen: set[str] = set()
        self._journal = recorder.journal
        self._journal.seen = self._note
        # The launch that was written last.
        self.latest = ""
        # Whether Triton's front end refuses a launch; whoever asks it says so.
        self.is_refused: Callable[[str], bool] = lambda identity: False

    def _note(self, identity: str) -> None:
        self._during.add(identity)
        self.latest = identity

    def ended(self, rank: Rank, guessed: bool = False) -> None:
        """The launches since the last word were made by a call of this kind; `guessed` says that a
        layer was built or called with something that nobody told."""
        for identity in self._during:
            self._ranks[identity] = min(rank, self._rank(identity))
        if rank <= Rank.DOCUMENTED and not guessed:
            self._seen |= self._during
        self._during.clear()

    def sift(self, path: str) -> None:
        """Rewrite the launches file with the most trusted launches of each kernel."""
        if not self._ranks and not self._during:
            # A launches file has a header, also where nothing was launched.
            self._journal.begin()
            return
        with open(path, encoding="utf-8") as file:
            lines: list[Line] = [json.loads(line) for line in file]
        best = list(self._best([line for line in lines if "kernel" in line]))
        kept = {line["id"] for line in self._taken(best)}
        # A source's text stands in the first kept line that uses it, whichever that is now.
        texts = {line["source"]: line.pop("text") for line in lines if "text" in line}
        for line in lines:
            if line.get("id") in kept and line.get("source") in texts:
                line["text"] = texts.pop(line["source"])
        of_kept = [line for line in lines if line.get("of", line.get("id")) in kept]
        used = {digest for line in of_kept for digest in line.get("paths", ())}
        with open(f"{path}.part", "w", encoding="utf-8") as file:
            for line in lines:
                stays = "schema" in line or line.get("of", line.get("id")) in kept
                if stays or line.get("path") in used:
                    file.write(json.dumps(line, ensure_ascii=False) + "\n")
        os.replace(f"{path}.part", path)

    def _best(self, launches: list[Line]) -> Iterator[Line]:
        """Those to keep. All say whether the arguments were made up for an inner function."""
        best: dict[str, Rank] = {}
        layers, outer = _Forms(), _Forms()
        for line in launches:
            kernel, rank = line["kernel"], self._rank(line["id"])
            best[kernel] = min(rank, best.get(kernel, rank))
            line["made_up"] = line["id"] not in self._seen
            if rank == Rank.LAYER:
                layers.add(line, _arguments(line))
            if rank <= Rank.OUTER:
                outer.add(line, _dtypes(line))
        for line in launches:
            rank = self._rank(line["id"])
            trusted = rank <= max(best[line["kernel"]], Rank.SHARED)
            agrees = rank == Rank.LAYER or layers.have(line, _arguments(line))
            if rank == Rank.SHARED:
                agrees = agrees and outer.have(line, _dtypes(line))
            if trusted and agrees:
                yield line

    def _taken(self, launches: list[Line]) -> Iterator[Line]:
        """Without made-up launches that their kernel does not take, where it takes others: what
        is compiled of a kernel is the first launch in each dtype."""
        fine = {line["kernel"] for line in launches if not self.is_refused(line["id"])}
        for line in launches:
            wrong = line["made_up"] and self.is_refused(line["id"])
            if not wrong or line["kernel"] not in fine:
                yield line

    def _rank(self, identity: str) -> Rank:
        return self._ranks.get(identity, Rank.FAILED)


class _Forms:
    """The forms in which calls of some kind pass arguments, by the names of kernel and argument."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], set[str]] = {}

    def add(self, line: Line, forms: Iterator[tuple[str, str]]) -> None:
        for name, form in forms:
            self._known.setdefault((line["kernel"], name), set()).add(form)

    def have(self, line: Line, forms: Iterator[tuple[str, str]]) -> bool:
        """Whether none of these is new for an argument that such calls pass at all."""
        return all(form in self._known.get((line["kernel"], name), (form,)) for name, form in forms)


def _arguments(line: Line) -> Iterator[tuple[str, str]]:
    """The arguments that are pointers or numbers, and which of both each is."""
    for name, given in line["launch"]["args"].items():
        if isinstance(given, dict) and "dtype" in given:
            yield name, "pointer"
        elif isinstance(given, dict) and "constexpr" not in given:
            yield name, "number"


def _dtypes(line: Line) -> Iterator[tuple[str, str]]:
    """The arguments that are pointers, and whether each has the dtype of the launch or one of its
    own. A launch in fp32 does not tell those apart."""
    held = [
        (name, str(given["dtype"]))
        for name, given in line["launch"]["args"].items()
        if isinstance(given, dict) and "dtype" in given
    ]
    narrow = [dtype for _, dtype in held if dtype in ("bf16", "fp16") or dtype.startswith("fp8")]
    if not narrow:
        return
    for name, dtype in held:
        if dtype == narrow[0]:
            yield name, "the launch's"
        else:
            yield name, dtype
