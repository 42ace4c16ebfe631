"""Explanations: a rule's texts beside what was found."""

from __future__ import annotations

import pytest

from flacheck.errors import UsageError
from flacheck.rules import RULES
from flacheck.rules.explanation import of_code, of_log, to_json


def test_a_code_is_explained_by_its_rule() -> None:
    """It has no line and no excerpt."""
    (explained,) = of_code("FC302")
    rule = RULES["FC302"]
    assert (explained.code, explained.cause, explained.remedy) == ("FC302", rule.cause, rule.remedy)
    assert (explained.line, explained.excerpt) == (None, "")


def test_an_unknown_code_names_the_known_ones() -> None:
    """As whoever mistyped it needs them."""
    with pytest.raises(UsageError, match="no failure code FC999: known are FC000, FC101"):
        of_code("FC999")


def test_a_log_is_explained_with_its_place() -> None:
    """The line counts from 1."""
    (explained,) = of_log("fine\nValueError: something new\n")
    assert (explained.code, explained.line) == ("FC000", 2)
    assert explained.excerpt == "ValueError: something new"
    assert of_log("fine\n") == []


def test_the_document_names_bad_and_good_releases() -> None:
    """Links stay with the rule."""
    document = to_json(of_code("FC101"))
    assert document["schema"] == "flacheck.explain/1"
    (finding,) = document["findings"]
    rule = RULES["FC101"]
    assert finding["versions"] == {"bad": list(rule.bad), "good": list(rule.good)}
    assert not {"links", "bad", "good"} & set(finding)
