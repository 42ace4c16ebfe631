"""Outputs that documents show, made by their commands; `python -m tests.shown_outputs` draws again.

`docs/check.svg` is a terminal with the first screen of `flacheck check`.
"""

from __future__ import annotations

import html
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile

from rich.console import Console
from rich.text import Text

from tests.paths import ROOT

PICTURE = ROOT / "docs" / "check.svg"
# The command whose answer the picture has; a published result, so that it is the same everywhere.
CHECK = "flacheck check --torch 2.12 --package flash-linear-attention==0.4.2 --target h100"
_COLUMNS = 100
# The first paragraphs: the answer, its points and the recommendation.
_LAST = "Packages"


def output_of(line: str, columns: int = _COLUMNS, color: bool = False) -> str:
    """Return what a flacheck command prints to a terminal of this width."""
    environment = {**os.environ, "COLUMNS": str(columns)}
    environment |= {"FORCE_COLOR": "1", "NO_COLOR": ""} if color else {"NO_COLOR": "1"}
    words = ["-m", *shlex.split(line)]
    with tempfile.TemporaryDirectory() as folder:
        outcome = subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
        )
    assert outcome.returncode in (0, 1), outcome.stderr
    return outcome.stdout


def first_screen() -> str:
    """Return the typed command and the first lines of its answer, with colours."""
    text = output_of(CHECK, color=True)
    lines = []
    for line in text.splitlines():
        if Text.from_ansi(line).plain == _LAST:
            break
        lines.append(line)
    return "\n".join([f"$ {CHECK}", *lines]).rstrip()


def draw() -> str:
    """Return the picture of the first screen, without fonts of other servers."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(first_screen()))
    svg = console.export_svg(title="flacheck check", unique_id="check")
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)


def text_of(svg: str) -> list[str]:
    """Return the lines of a picture's text, whatever its layout."""
    lines: dict[str, str] = {}
    for line, words in re.findall(
        r'<text class="check-r\d+"[^>]* y="([\d.]+)"[^>]*>(.*?)</text>', svg
    ):
        lines[line] = lines.get(line, "") + html.unescape(words).replace("\xa0", " ")
    return [line.rstrip() for line in lines.values()]


if __name__ == "__main__":
    PICTURE.write_text(draw())
