"""The files of a reproduction, one of them the text of an issue."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from flacheck.capabilities.repro.output.issue import issue, nameless
from flacheck.capabilities.repro.output.result import Reproduced
from flacheck.errors import UsageError

SCRIPT = "repro.py"
ORIGINAL = "original.py"
ISSUE = "issue.md"
TTIR = "repro.ttir"
LOG = "log.txt"
ABOUT = "repro.json"


def contents(result: Reproduced) -> dict[str, str]:
    """Return each file's text by its name; the issue only if a run failed."""
    texts = {SCRIPT: result.script, ORIGINAL: result.original_script}
    if result.is_reproduced:
        texts[ISSUE] = "\n".join(issue(result)) + "\n"
    if result.ttir:
        texts[TTIR] = result.ttir
    texts[LOG] = nameless("\n".join(result.log)) + "\n"
    about = result.to_json([*texts, ABOUT])
    texts[ABOUT] = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    return texts


def write(texts: Mapping[str, str], folder: Path) -> list[Path]:
    """Write files, each whole or not at all; raise UsageError if the folder is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Files of an older reproduction must not stay beside a newer script, verified or not.
        if SCRIPT in texts:
            for name in {ISSUE, TTIR, LOG, ABOUT} - set(texts):
                (folder / name).unlink(missing_ok=True)
        for name, text in texts.items():
            partial = folder / f".{name}.{os.getpid()}"
            partial.write_text(text, encoding="utf-8")
            partial.replace(folder / name)
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written ({error.strerror}); name another folder with -o"
        ) from None
    return [folder / name for name in texts]
