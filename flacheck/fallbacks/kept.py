"""What a search found, kept with the run it was made for: a later report of that run shows it
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flacheck.analysis.fallbacks import Fallback
from flacheck.fallbacks.oracle import FOLDER
from flacheck.store import FILE, Store

_OF, _FOUND = "of", "fallbacks"


def keep(store: Store, environment: Mapping[str, Any], run: str, found: Iterable[Fallback]) -> None:
    """Note in the search's store what was found for a run of the scan's; the last search of a run
    counts.
    """
    noted = [[each.package, each.to_json()] for each in found]
    store.begin_run(environment, None, {_OF: run, _FOUND: noted})


def kept(scanned: Store, runs: Sequence[str]) -> list[Fallback]:
    """What was found for runs of a scan's store, in the order of the runs."""
    folder = beside(scanned)
    if not (folder / FILE).exists():
        return []
    with Store.open(folder, create=False) as store:
        noted = {
            run.context[_OF]: run.context[_FOUND] for run in store.runs() if _FOUND in run.context
        }
    return [
        Fallback.from_json(value, package) for run in runs for package, value in noted.get(run, ())
    ]


def beside(scanned: Store) -> Path:
    """The folder of the search's store."""
    return scanned.path.parent / FOLDER
