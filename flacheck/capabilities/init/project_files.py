"""The files that `flacheck init` writes, and the blocks that it adds to a project's own files."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from flacheck import files
from flacheck.tables.settings import toml
from flacheck.version import __version__

WORKFLOW = Path(".github/workflows/flacheck.yml")
BASELINE = Path(".flacheck-baseline.json")
SETTINGS = Path("pyproject.toml")
HOOKS = Path(".pre-commit-config.yaml")
_STEPS = """\
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2
        with: {persist-credentials: false}
      - uses: actions/setup-python@a26af69be951a213d495a4c3e4e4022e16d87065 # v5.6.0
        with: {python-version: "3.12"}
"""
_GATE_JOB = f"""\
name: flacheck
on:
  pull_request:
  push:
    branches: [main, master]
  schedule:
    - cron: "17 4 * * 1" # new releases of torch and Triton
permissions:
  contents: read
jobs:
  gate: # seconds: judges the pins of torch and Triton, compiles nothing
    runs-on: ubuntu-latest
    steps:
{_STEPS}\
      - run: pip install flacheck=={__version__}
      - run: GATE --refresh --format github
"""
_SCAN_JOB = f"""\
  scan: # minutes: compiles the kernels that changed
    runs-on: ubuntu-latest
    steps:
{_STEPS}\
      - uses: actions/cache/restore@5a3ec84eff668545956fd18022155c47e93e2684 # v4.2.3
        with: {{path: ".flacheck\\n~/.cache/flacheck", key: flacheck, restore-keys: flacheck-}}
      - run: >-
          pip install "flacheck[torch]=={__version__}"
          --extra-index-url https://download.pytorch.org/whl/cpu
      - run: SCAN --write-baseline {BASELINE} --format github
      - if: always() # a run that fails keeps what it compiled
        uses: actions/cache/save@5a3ec84eff668545956fd18022155c47e93e2684 # v4.2.3
        with: {{path: ".flacheck\\n~/.cache/flacheck", key: "flacheck-${{{{ github.run_id }}}}"}}
      - if: always() # the baseline with all failures of today: to accept them, commit it
        uses: actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02 # v4.6.2
        with: {{name: baseline, path: {BASELINE}, include-hidden-files: true}}
      - if: always()
        run: flacheck report --format markdown >> "$GITHUB_STEP_SUMMARY"
"""
_HOOK = f"""\
- repo: local
  hooks:
    - id: flacheck-gate
      name: flacheck gate
      entry: GATE
      language: python
      additional_dependencies: [flacheck=={__version__}]
      files: (^|/)(pyproject\\.toml|uv\\.lock|(requirements|constraints)[^/]*\\.(txt|in))$
      pass_filenames: false
"""


@dataclass(frozen=True)
class Choices:
    """The subject, GPUs and release of a project's checks.

    Attributes:
        package: `.` for a project with kernels, None for one that only pins packages.
        targets: The GPUs.
        triton: The releases to compile with, as an argument of --triton.
        pins: The releases to judge where no file pins torch or Triton; "" where one does.
    """

    package: str | None
    targets: tuple[str, ...]
    triton: str
    pins: str

    def gate(self) -> str:
        """Return the command that judges the pins."""
        pins = ["--triton", self.pins] if self.pins else []
        return shlex.join(["flacheck", "gate", *self._subject(), *pins, *self._baseline()])

    def scan(self) -> str:
        """Return the command that compiles the project's kernels."""
        options = ["--triton", self.triton, "--configs", "usual"]
        return shlex.join(["flacheck", "scan", *self._subject(), *options, *self._baseline()])

    def _subject(self) -> list[str]:
        package = ["--package", self.package] if self.package else []
        return [*package, "--target", ",".join(self.targets)]

    def _baseline(self) -> list[str]:
        return ["--baseline", str(BASELINE)] if self.package else []


@dataclass(frozen=True)
class ProjectFile:
    """A file with the text to write.

    `block` is the part that flacheck adds, and `text` the whole file; `obstacle` is the reason why
    nothing is written.
    """

    path: Path
    block: str
    text: str = ""
    obstacle: str = ""


def project_files(choices: Choices, folder: Path, force: bool) -> Iterator[ProjectFile]:
    """Yield the workflow, the settings and the hook; an existing workflow stays unless forced.

    Raises UsageError if a file of the project cannot be read.
    """
    workflow = _GATE_JOB + (_SCAN_JOB if choices.package else "")
    text = workflow.replace("GATE", choices.gate(), 1).replace("SCAN", choices.scan(), 1)
    exists = os.path.lexists(folder / WORKFLOW) and not force
    yield ProjectFile(WORKFLOW, text, text, "it exists; --force replaces it" if exists else "")
    yield _with_settings(choices, folder)
    yield _with_hook(choices, folder)


def _with_settings(choices: Choices, folder: Path) -> ProjectFile:
    values: dict[str, object] = {"target": list(choices.targets)}
    if choices.package:
        values |= {"package": choices.package, "configs": "usual", "baseline": str(BASELINE)}
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in values.items()]
    file = ProjectFile(SETTINGS, "".join(["[tool.flacheck]\n", *lines]))
    if not (folder / SETTINGS).exists():
        # With this file pip would build the project in another way.
        return replace(file, obstacle="there is none, and the workflow needs no settings")
    old = files.read_text(folder / SETTINGS)
    if "flacheck" in toml.loads(old, str(SETTINGS)).get("tool", {}):
        return replace(file, obstacle="it has a table [tool.flacheck]")
    return replace(file, text=f"{old.rstrip()}\n\n{file.block}")


def _with_hook(choices: Choices, folder: Path) -> ProjectFile:
    block = _HOOK.replace("GATE", choices.gate())
    file = ProjectFile(HOOKS, block, f"repos:\n{block}")
    if not (folder / HOOKS).exists():
        return file
    old = files.read_text(folder / HOOKS)
    if "flacheck" in old:
        return replace(file, obstacle="it has a hook of flacheck")
    first = re.search(r"^( *)- repo:", old, re.M)
    if first is not None:
        indented = "".join(first[1] + line for line in block.splitlines(keepends=True))
        new = old[: first.start()] + indented + old[first.start() :]
        if _adds_hook(old, new, block):
            return replace(file, block=indented, text=new)
    return replace(file, obstacle="its list of repos cannot be extended; add the hook by hand")


def _adds_hook(old: str, new: str, block: str) -> bool:
    """Return True if the new text is the old document with one more hook."""
    try:
        before, after = yaml.safe_load(old), yaml.safe_load(new)
        expected = {**before, "repos": [*yaml.safe_load(block), *before["repos"]]}
    except (yaml.YAMLError, TypeError, KeyError):
        return False
    return bool(after == expected)
