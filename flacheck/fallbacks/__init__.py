"""Fallbacks: what compiles in place of what fails, searched nearest first and compiled before it is
said.

`search(plan, records, oracle)` yields them; `ScanOracle` asks the engine's warm workers.
"""

from __future__ import annotations

from flacheck.analysis.fallbacks import Fallback
from flacheck.fallbacks.constants import HOST, TUNABLE, UNSAFE, Constant, Constants, constants
from flacheck.fallbacks.cost import estimate, loss
from flacheck.fallbacks.exploration import BUDGET
from flacheck.fallbacks.oracle import FOLDER, Beside, Oracle, ScanOracle
from flacheck.fallbacks.releases import with_those_here
from flacheck.fallbacks.searching import search

__all__ = [
    "BUDGET",
    "FOLDER",
    "HOST",
    "TUNABLE",
    "UNSAFE",
    "Beside",
    "Constant",
    "Constants",
    "Fallback",
    "Oracle",
    "ScanOracle",
    "constants",
    "estimate",
    "loss",
    "search",
    "with_those_here",
]
