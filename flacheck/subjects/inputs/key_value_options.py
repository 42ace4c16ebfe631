"""`NAME=VALUE` options of a command line: macros of CUDA units, and options of compilers."""

import itertools
import re
from collections.abc import Mapping, Sequence

from flacheck.errors import UsageError
from flacheck.source.builds.arguments import macro_value

Value = str | int | bool
_NAME = re.compile(r"[A-Za-z_]\w*")


def combinations(flag: str, arguments: Sequence[str]) -> tuple[Mapping[str, Value], ...]:
    """Return every combination of the names' values: `D=64`, `D=128` and `SPLIT` have two.

    A name alone is true. Raises UsageError for any other argument than NAME=VALUE.
    """
    values: dict[str, dict[Value, None]] = {}
    for text in arguments:
        name, equals, value_text = text.partition("=")
        name = name.strip()
        if not _NAME.fullmatch(name):
            raise UsageError(f"{flag} {text}: expected NAME=VALUE, for example {flag} HEAD_DIM=64")
        value: Value = True
        if equals:
            value = macro_value(value_text.strip())
        values.setdefault(name, {})[value] = None
    products = itertools.product(*values.values())
    return tuple(dict(zip(values, combination)) for combination in products)
