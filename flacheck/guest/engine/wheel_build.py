"""The hooks of a package's build (PEP 517), which run its code; they run in the sandbox."""

from __future__ import annotations

import importlib
import json
import os
import site
import sys
from pathlib import Path
from typing import Any

from .channel import read_config


def main() -> None:
    """Call one hook of a build backend in the folder of the sources, and write its answer.

    The config has the `root` of the sources, the folder with the build's `requirements`, `backend`
    and `backend_path` as in pyproject.toml, and the file for the `answer`: the further requirements
    of the build or, with a file for the `wheel`, the wheel's name.
    """
    config = read_config()
    os.chdir(config["root"])
    # setuptools brings the distutils that Python 3.12 lacks by a .pth file.
    site.addsitedir(config["requirements"])
    sys.path[:0] = [os.path.join(config["root"], part) for part in config["backend_path"]]
    backend = _load(config["backend"])
    wheel = config["wheel"]
    if wheel is None:
        answer = list(map(str, getattr(backend, "get_requires_for_build_wheel", list)()))
    else:
        folder = Path(f"{wheel}-folder")
        folder.mkdir()
        answer = backend.build_wheel(str(folder))
        (folder / answer).rename(wheel)
    with open(config["answer"], "x", encoding="utf-8") as file:
        json.dump({"answer": answer}, file)


def _load(name: str) -> Any:
    """Return a backend: `setuptools.build_meta:__legacy__`."""
    module, _, attributes = name.partition(":")
    backend: Any = importlib.import_module(module)
    for attribute in filter(None, attributes.split(".")):
        backend = getattr(backend, attribute)
    return backend
