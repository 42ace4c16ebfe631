"""Pins of the live environment: what is installed beside flacheck."""

from __future__ import annotations

from importlib import metadata

from flacheck.gate.pinned import NAMES, Pin, Scope

NAME = "(installed)"


def read() -> list[Scope]:
    """The installed torch and Triton as exact pins."""
    return [Scope(None, tuple(pin for pin in map(_installed, NAMES) if pin))]


def _installed(name: str) -> Pin | None:
    try:
        return Pin(
            NAME, None, name, f"=={metadata.version(name)}", obstacle="it is what is installed"
        )
    except metadata.PackageNotFoundError:
        return None
