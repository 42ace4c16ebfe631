"""Failure rules: one declaration a code, one file a family, and the reading of attempts and logs by
them.
"""

from __future__ import annotations

from flacheck.rules.base import UNCLASSIFIED, Rule
from flacheck.rules.catalogue import RULES
from flacheck.rules.classify import classify, read
from flacheck.rules.decisive import decisive
from flacheck.rules.harness import slow
from flacheck.rules.resources import over_limits
from flacheck.rules.signature import normalise, signature

__all__ = [
    "RULES",
    "UNCLASSIFIED",
    "Rule",
    "classify",
    "decisive",
    "normalise",
    "over_limits",
    "read",
    "signature",
    "slow",
]
