"""Writes flacheck/tables/triton_names.yaml: which Triton releases have a name or a module.

`python -m tests.triton_names` imports Triton in each release of the table, which it installs where it
is missing, and lists the names of the modules below and every module of the package.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from flacheck import toolchains
from flacheck.toolchains import triton_releases
from tests.paths import ROOT

TABLE = ROOT / "flacheck" / "tables" / "triton_names.yaml"
# Modules whose names callers import.
MODULES = (
    *("triton", "triton.language", "triton.compiler.compiler", "triton.runtime.autotuner"),
    *("triton.runtime.cache", "triton.runtime.jit"),
)
HEAD = """\
# What the Triton releases have, of what not all have: the first and the last release with it.
# `names` were read with `dir()` of each module, `modules` from the files, of the wheels of {first} to {last}.
# `everywhere` lists the modules that all of them have. `python -m tests.triton_names` writes this file.
"""
PROGRAM = """
import importlib, json, sys
sys.path[:0] = json.loads(sys.argv[1])
found = {}
for path in json.loads(sys.argv[2]):
    found[path] = [name for name in dir(importlib.import_module(path)) if name[:2] != "__"]
print(json.dumps(found))
"""


def names_of(folders: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of each of MODULES in an installed release."""
    command = [sys.executable, "-c", PROGRAM, json.dumps([*folders]), json.dumps(MODULES)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    names: dict[str, list[str]] = json.loads(ran.stdout)
    return names


def modules_of(folder: str) -> set[str]:
    """Return every module of an installed release by its dotted name."""
    found = set()
    for file in (Path(folder) / "triton").rglob("*.py"):
        parts = file.relative_to(folder).with_suffix("").parts
        # A folder without an `__init__` can be imported, too.
        for length in range(1, len(parts) + 1):
            found.add(".".join(parts[:length]).removesuffix(".__init__"))
    return found


def ranges(by_release: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return name → first and last release with it, of names that not every release has."""
    releases: dict[str, list[str]] = {}
    for release, names in by_release.items():
        for name in set(names):
            releases.setdefault(name, []).append(release)
    found = {}
    for name, having in sorted(releases.items()):
        if len(having) < len(by_release):
            found[name] = [having[0], having[-1]]
    return found


def read_releases() -> dict[str, Any]:
    """Return the content of the table, read from every release."""
    names: dict[str, dict[str, list[str]]] = {path: {} for path in MODULES}
    modules = {}
    for release in triton_releases.known_releases():
        (choice,) = toolchains.resolve([release]).choices
        folders = toolchains.provide(choice).paths
        modules[release] = modules_of(folders[0])
        for path, of_module in names_of(folders).items():
            names[path][release] = of_module
    everywhere = set.intersection(*modules.values())
    by_path = {}
    for path, by_release in names.items():
        # A module can be imported from its package, whether `dir()` shows it or not.
        own = ranges(by_release).items()
        by_path[path] = {name: having for name, having in own if f"{path}.{name}" not in everywhere}
    return {"names": by_path, "modules": ranges(modules), "everywhere": sorted(everywhere)}


def text_of(content: Mapping[str, Any]) -> str:
    """Return the table as the text of its file."""
    releases = list(triton_releases.known_releases())
    head = HEAD.format(first=releases[0], last=releases[-1])
    return head + yaml.safe_dump(content, default_flow_style=None, sort_keys=False, width=120)


if __name__ == "__main__":
    TABLE.write_text(text_of(read_releases()))
