"""Which launches to keep: a kernel that an operator launched as its package does is not scanned as
we guessed it.

Arguments are made up, and so may be wrong: a call that failed half-way, or one of a package's inner
functions, can launch a kernel with dtypes that never meet. Such launches stay only where there are
no better ones of that kernel, and are marked. A layer makes the arguments of its kernels itself:
where one passes a pointer, a number is wrong.
"""

from __future__ import annotations

import json
import os

from ..recorder import journal

# The kinds of call, from the one that is trusted most.
LAYER, OUTER, INNER, FAILED = range(4)


class Witness:
    """Notes in which calls a launch was made, also when it was written down long before."""

    def __init__(self, recorder) -> None:
        self._during: set[str] = set()
        self._rank: dict[str, int] = {}
        self._journal = recorder._journal
        self._write, self._journal.launch = self._journal.launch, self._seen

    def _seen(self, line: dict, *rest) -> None:
        self._during.add(journal.digest(line))
        self._write(line, *rest)

    def ended(self, rank: int) -> None:
        """The launches since the last word were made by a call of this kind."""
        for identity in self._during:
            self._rank[identity] = min(rank, self._rank.get(identity, rank))
        self._during.clear()

    def sift(self, path: str) -> None:
        """Leave the launches file with the most trusted launches of each kernel, or at least its
        first line.
        """
        if not self._rank and not self._during:
            self._journal._begin()
            return
        with open(path, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        launches = [line for line in lines if "kernel" in line]
        best: dict[str, int] = {}
        for line in launches:
            best[line["kernel"]] = min(self._of(line), best.get(line["kernel"], FAILED))
        forms = _Forms(line for line in launches if self._of(line) == LAYER)
        for line in launches:
            line["made_up"] = self._of(line) > OUTER
        kept = [line for line in lines if "kernel" not in line or self._stays(line, best, forms)]
        identities = {line["id"] for line in kept if "id" in line}
        _texts(lines, kept)
        _replace(
            path,
            [
                line
                for line in kept
                if line.get("of", line.get("id")) in identities or "schema" in line
            ],
        )

    def _stays(self, line: dict, best: dict, forms) -> bool:
        rank = self._of(line)
        return rank == LAYER or (rank <= max(best[line["kernel"]], OUTER) and forms.agree(line))

    def _of(self, line: dict) -> int:
        return self._rank.get(line["id"], FAILED)


class _Forms:
    """Which arguments of kernels are pointers and which are numbers, as the package's own layers
    pass them.
    """

    def __init__(self, launches) -> None:
        self._seen: dict[tuple[str, str], set[str]] = {}
        for line in launches:
            for name, form in _forms(line):
                self._seen.setdefault((line["kernel"], name), set()).add(form)

    def agree(self, line: dict) -> bool:
        return all(
            form in self._seen.get((line["kernel"], name), (form,)) for name, form in _forms(line)
        )


def _forms(line: dict):
    for name, given in line["launch"]["args"].items():
        if isinstance(given, dict) and "constexpr" not in given:
            yield name, "pointer" if "dtype" in given else "number"


def _texts(lines, kept) -> None:
    """A source's text stands in the first line that uses it, whichever that is now."""
    texts = {line["source"]: line.pop("text") for line in lines if "text" in line}
    for line in kept:
        if line.get("source") in texts:
            line["text"] = texts.pop(line["source"])


def _replace(path: str, lines) -> None:
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    os.replace(f"{path}.part", path)
