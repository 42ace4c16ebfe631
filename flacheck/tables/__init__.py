"""Facts that ship with flacheck, each with its source, and the settings of user and project.

Nothing here reads the network or an installed compiler.
"""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from flacheck.errors import FlacheckError

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def table(name: str) -> dict[str, Any]:
    """Return the table in `NAME.yaml` of this folder."""
    text = files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = read_yaml(text)
    return content


def read_yaml(text: str) -> Any:
    """Return the values of a YAML text, read by libyaml where PyYAML has it: ten times as fast."""
    return yaml.load(text, Loader=_LOADER)


def find_shipped_folder(name: str) -> Path:
    """Return a folder of flacheck's own: `kernels`, `matrices` or `results`.

    It lies inside the package when installed from a wheel, beside it in a checkout.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FlacheckError(f"the folder {package / name} is missing: install flacheck again")
