"""Tables that ship with flacheck."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml


@cache
def table(name: str) -> dict[str, Any]:
    """The table in `NAME.yaml` of this folder."""
    text = files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded
