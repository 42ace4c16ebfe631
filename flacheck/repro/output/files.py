"""What a reproduction leaves: a folder of files, each whole or not there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from flacheck.errors import UsageError
from flacheck.repro.output.issue import issue, nameless
from flacheck.repro.output.result import Result

SCRIPT, ORIGINAL, ISSUE, TTIR, LOG, ABOUT = (
    "repro.py",
    "original.py",
    "issue.md",
    "repro.ttir",
    "log.txt",
    "repro.json",
)


def contents(result: Result) -> Iterator[tuple[str, str]]:
    """Each file's name and text."""
    yield SCRIPT, result.script
    yield ORIGINAL, result.original_script
    yield ISSUE, "\n".join(issue(result)) + "\n"
    if result.ttir:
        yield TTIR, result.ttir
    yield LOG, nameless("\n".join(result.log)) + "\n"
    names = [SCRIPT, ORIGINAL, ISSUE, *([TTIR] if result.ttir else []), LOG, ABOUT]
    yield ABOUT, json.dumps(result.to_json(names), indent=2, ensure_ascii=False) + "\n"


def write(result: Result, folder: Path) -> list[Path]:
    """Write all files; an older reproduction in the folder is replaced, its IR removed where there
    is none now.
    """
    written = save(dict(contents(result)), folder)
    if not result.ttir:
        (folder / TTIR).unlink(missing_ok=True)
    return written


def save(texts: Mapping[str, str], folder: Path) -> list[Path]:
    """Write files into a folder, each whole or not at all."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_written(folder / name, text) for name, text in texts.items()]
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror}); name another folder with -o"
        ) from None


def _written(file: Path, text: str) -> Path:
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(file)
    return file
