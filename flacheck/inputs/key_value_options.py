"""`NAME=VALUE` on a command line: macros of CUDA units, and options of compilers."""

import itertools
import re
from collections.abc import Mapping, Sequence

from flacheck.errors import UsageError
from flacheck.source.builds.arguments import macro_value

Value = str | int | bool
_NAME = re.compile(r"[A-Za-z_]\w*")


def combinations(flag: str, given: Sequence[str]) -> tuple[Mapping[str, Value], ...]:
    """Every combination of the values given for each name: `D=64`, `D=128` and `SPLIT` are two. A
    name alone is true. UsageError for what is no NAME=VALUE."""
    values: dict[str, dict[Value, None]] = {}
    for text in given:
        name, is_valued, said = text.partition("=")
        name = name.strip()
        if not _NAME.fullmatch(name):
            raise UsageError(f"{flag} {text}: expected NAME=VALUE, for example {flag} HEAD_DIM=64")
        value: Value = True
        if is_valued:
            value = macro_value(said.strip())
        values.setdefault(name, {})[value] = None
    products = itertools.product(*values.values())
    return tuple(dict(zip(values, chosen)) for chosen in products)
