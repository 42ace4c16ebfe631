"""JSON values and their digests."""

import hashlib
import json
from typing import Any

Json = dict[str, Any]
# One for all values: json.dumps makes an encoder at each call, which takes longer than most values.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: Any) -> str:
    """Return JSON with sorted keys and no white space, the form that is hashed."""
    return _ENCODER.encode(value)


def digest(value: Any, length: int = 32) -> str:
    """Return the first `length` hex digits of the SHA-256 of a JSON value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:length]
