"""Failure rules: one declaration a code, and the reading of attempts and logs by them."""

from __future__ import annotations

from flacheck.rules.base import RULES, UNCLASSIFIED, Rule
from flacheck.rules.classify import classify, read
from flacheck.rules.decisive import decisive
from flacheck.rules.measured import over_limits, slow
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
