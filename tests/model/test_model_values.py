"""JSON values and their digests, on which every key rests."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from flacheck.model.values import canonical, digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_the_hashed_form_is_fixed() -> None:
    """The hashed form is sorted, without white space, in UTF-8."""
    assert canonical({"b": [1, 2.5, None], "a": "ä"}) == '{"a":"ä","b":[1,2.5,null]}'


def test_a_digest_is_the_beginning_of_a_sha_256() -> None:
    """A digest has the requested number of digits."""
    whole = hashlib.sha256(b'{"a":1}').hexdigest()
    assert digest({"a": 1}) == whole[:32]
    assert digest({"a": 1}, 8) == whole[:8]


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_the_order_of_names_is_no_content(value: dict[str, object]) -> None:
    """The order of names does not matter, and a tuple equals a list."""
    other = dict(reversed(list(value.items())))
    assert digest(other) == digest(value)
    assert digest([tuple(value)]) == digest([list(value)])
