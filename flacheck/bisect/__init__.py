"""Where a cell's verdict or signature changes over the releases of its compiler.

sitting = Bisecting(chosen, releases(chosen.cell, specs).choices, find, store, …)
for record in sitting.records(progress): …      # only what the search needs is compiled
sitting.found()                                 # history and changes
"""

from flacheck.bisect.history import Bisection, Change, Entry, Find, Kind
from flacheck.bisect.releases import releases
from flacheck.bisect.sitting import Bisecting

__all__ = ["Bisecting", "Bisection", "Change", "Entry", "Find", "Kind", "releases"]
