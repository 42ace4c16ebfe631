"""Narrowed specifiers: what they admit, and their text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from flacheck.capabilities.gate.suggest import alternatives, narrow_specifier

NUMBERS = st.builds("{}.{}.{}".format, st.integers(2, 4), st.integers(0, 4), st.integers(0, 2))


CLAUSES = st.one_of(
    st.builds("{}{}".format, st.sampled_from([">=", ">", "<=", "<", "!=", "~="]), NUMBERS),
    st.builds(
        "{}{}.*".format,
        st.sampled_from(["==", "!="]),
        st.builds("{}.{}".format, st.integers(2, 4), st.integers(0, 4)),
    ),
)


SPECIFIERS = st.lists(CLAUSES, max_size=4).map(",".join)


UNIVERSE = [
    f"{major}.{minor}.{patch}{rest}"
    for major in (2, 3, 4, 5)
    for minor in range(6)
    for patch in range(3)
    for rest in ("", ".post1", "rc1", "+local")
]


@settings(deadline=None)
@given(SPECIFIERS, st.lists(NUMBERS, unique=True, min_size=1, max_size=10), st.data())
def test_a_narrowed_specifier_keeps_loses_and_is_contained(
    specifier: str, versions: list[str], data: st.DataObject
) -> None:
    """A narrowed specifier admits the kept versions, and none outside the original."""
    inside = [version for version in versions if SpecifierSet(specifier).contains(version)]
    if not inside:
        return
    keep = data.draw(st.lists(st.sampled_from(inside), unique=True, min_size=1))
    lose = [version for version in inside if version not in keep]
    narrow = SpecifierSet(narrow_specifier(specifier, keep, lose))
    assert all(map(narrow.contains, keep))
    assert not any(map(narrow.contains, lose))
    original = SpecifierSet(specifier)
    for version in UNIVERSE:
        assert not narrow.contains(version, prereleases=True) or original.contains(
            version, prereleases=True
        )


@pytest.mark.parametrize(
    ("specifier", "keep", "lose", "narrow"),
    [
        (">=3.2", ["3.4.0", "3.5.0"], ["3.2.0", "3.3.0"], ">=3.4.0"),
        ("", ["3.1.0", "3.4.0"], ["3.2.0"], "!=3.2.0"),
        (">=3.1,!=3.3.0,<3.9", ["3.4.0", "3.5.0"], ["3.1.0", "3.8.0"], ">=3.4.0,<3.8"),
        ("~=3.2", ["3.3.1", "3.4.0"], ["3.2.0"], ">=3.3.1,~=3.2"),
        (">=3.2,<3.4", ["3.3.0", "3.3.1"], ["3.2.0"], ">=3.3.0,<3.4"),
        (">=3.2", ["3.3.0"], ["3.3.1", "3.4.0"], ">=3.2,<3.3.1"),
    ],
)
def test_a_narrowed_specifier_reads_as_a_person_would_write_it(
    specifier: str, keep: list[str], lose: list[str], narrow: str
) -> None:
    """A bound moves if that is enough, and useless exclusions are dropped."""
    assert narrow_specifier(specifier, keep, lose) == narrow


def test_alternatives_are_narrowed_each() -> None:
    """Each alternative of Poetry's `||` is narrowed or dropped."""
    assert alternatives("==3.2.0 || >=3.3,<4", ["3.4.0"], ["3.2.0", "3.3.0"]) == ">=3.4.0,<4"
    assert alternatives(">=3.2 || <3.2", ["3.1.0", "3.4.0"], ["3.2.0"]) == ">=3.4.0 || <3.2"
