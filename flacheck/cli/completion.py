"""Shell completion: what an option's value may be, from the names that exist here.

A function takes the beginning of a word. Values separated by commas complete the last of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from flacheck import FlacheckError
from flacheck.api.options.declaration import Option

# A value, or a value with a word about it.
Suggestion: TypeAlias = "str | tuple[str, str]"
Completer: TypeAlias = Callable[[str], list[Any]]


def _matching(suggestions: Iterable[Suggestion], incomplete: str) -> list[Any]:
    """Return the suggestions that begin like the last part of a comma-separated word."""
    before, comma, part = incomplete.rpartition(",")
    matches: list[Any] = []
    try:
        for suggestion in suggestions:
            value, about = (suggestion, "") if isinstance(suggestion, str) else suggestion
            if value.startswith(part):
                matches.append((f"{before}{comma}{value}", about))
    # A store or a file that cannot be read is named when the command runs.
    except (FlacheckError, OSError):
        return []
    return matches


def _of(name: str) -> Completer:
    """Return the completion by the function of `flacheck.api.suggestions` of that name."""

    def complete(incomplete: str) -> list[Any]:
        # Imported here: a command that completes nothing starts faster.
        from flacheck.api import suggestions

        return _matching(getattr(suggestions, name)(), incomplete)

    return complete


def of_option(option: Option) -> Completer | None:
    """Return the completion of an option: its choices, or the function that it names."""
    if option.choices:
        return lambda incomplete: _matching(option.choices, incomplete)
    if option.complete is None:
        return None
    return _OWN.get(option.complete) or _of(option.complete)


def _formats(incomplete: str) -> list[Any]:
    """Complete FORMAT=FILE up to the sign."""
    from flacheck import reports

    return _matching([f"{name}=" for name in reports.FORMATS], incomplete)


def _files(*suffixes: str) -> Completer:
    """Return the completion by folders and by files with these suffixes."""

    def complete(incomplete: str) -> list[Any]:
        folder = Path(incomplete).parent if incomplete else Path()
        paths = folder.iterdir() if folder.is_dir() else ()
        names = [f"{path}/" if path.is_dir() else str(path) for path in sorted(paths)]
        fitting = [name for name in names if name.endswith((*suffixes, "/"))]
        return _matching(fitting, incomplete)

    return complete


def _matrix_or_file(incomplete: str) -> list[Any]:
    named = _of("matrices")(incomplete)
    return named + _files(".yaml", ".yml", ".jsonl")(incomplete)


def _cell(incomplete: str) -> list[Any]:
    return _of("failing_cells")(incomplete) + _matrix_or_file(incomplete)


def _code_or_file(incomplete: str) -> list[Any]:
    return _of("codes")(incomplete) + _files(".log", ".txt", ".gz", ".zst", ".zip")(incomplete)


def _topics(incomplete: str) -> list[Any]:
    """Complete the topic of `flacheck help`."""
    from flacheck.cli.topics import title_of, topic_texts

    titles = [(name, title_of(text)) for name, text in topic_texts().items()]
    return _matching(titles, incomplete)


_OWN: dict[str, Completer] = {
    "cells": _cell,
    "codes": _code_or_file,
    "formats": _formats,
    "launches_files": _files(".jsonl"),
    "matrices": _matrix_or_file,
    "measured_files": _files(".jsonl", ".bundle"),
    "topics": _topics,
}
