"""Names that source from a file may use, looked up in the releases that may compile it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from flacheck import toolchains
from flacheck.guest.engine import admission as guest
from flacheck.guest.engine import channel
from flacheck.subjects.inputs.launches.admission import Refused, check_source
from flacheck.subjects.inputs.launches.language import MEMBERS, NAMES
from flacheck.toolchains import triton_releases
from tests.subjects.inputs.launches.test_admission import HEAD

# Lists every name of each module, with the verdict of the worker's own check on it, and every member
# of what a name leads to that is not Triton's own or plain data.
PROGRAM = """
import sys, json, types
from importlib.util import module_from_spec, spec_from_file_location
sys.path += json.loads(sys.argv[1])
places = [sys.argv[3]]
spec = spec_from_file_location("guest", places[0] + "/__init__.py", submodule_search_locations=places)
sys.modules["guest"] = module_from_spec(spec)
names, members = json.loads(sys.argv[2])
from guest.engine import admission
from guest.engine.admission import NotAdmitted

def is_plain(value):
    # Data, and what Triton itself defines.
    kind = type(value)
    if isinstance(value, type):
        kind = value
    elif isinstance(value, types.MethodType):
        return is_plain(value.__func__)
    if kind.__module__ == "functools":
        return True
    place = getattr(value, "__module__", None) or kind.__module__
    in_triton = place.partition(".")[0] == "triton"
    return in_triton or (kind.__module__ == "builtins" and not callable(value))

found = {}
for path in names:
    module = admission._module(path)
    verdicts = {}
    for name in dir(module):
        try:
            admission.follow(module, [name])
            good = True
        except NotAdmitted:
            good = False
        verdicts[name] = good
        if name in names[path]:
            value = getattr(module, name)
            for member in members:
                held = getattr(value, member, None)
                if isinstance(held, types.ModuleType) or not is_plain(held):
                    verdicts[f"{name}.{member}"] = f"a member of {type(held)}"
    found[path] = verdicts
print(json.dumps(found))
"""


def verdicts_of(paths: list[str]) -> dict[str, dict[str, Any]]:
    """Return the worker's verdict on each name of each admitted module, by module."""
    request = [{path: sorted(names) for path, names in NAMES.items()}, sorted(MEMBERS)]
    arguments = [json.dumps(paths), json.dumps(request), channel.GUEST]
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, *arguments], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    verdicts: dict[str, dict[str, Any]] = json.loads(run.stdout)
    return verdicts


def is_admitted(path: str) -> bool:
    """Return True if a source may use the name, in a kernel and in an import."""
    module, _, name = path.rpartition(".")
    texts = [
        f"import {module} as m\n\n\n@triton.jit\ndef k(x):\n    m.{name}(x)\n",
        f"from {module} import {name} as f\n\n\n@triton.jit\ndef k(x):\n    f(x)\n",
    ]
    answers = set()
    for text in texts:
        try:
            check_source(HEAD + text)
            answers.add(True)
        except Refused:
            answers.add(False)
    return True in answers


def faults(verdicts: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Names that one of the two checks should refuse, or should not."""
    for module, names in verdicts.items():
        for name, good in names.items():
            path = f"{module}.{name}"
            if isinstance(good, str):
                yield f"{path}: {good}"
            elif path.endswith(".inline_asm_elementwise"):
                continue
            elif not name.startswith("__") and is_admitted(path) and not good:
                if path not in guest.MODULES:
                    yield f"{path} is admitted and leads out of the language"
            elif name in NAMES[module] and not good:
                yield f"{path} is in the list and the worker refuses it"


def test_both_checks_know_the_same_modules() -> None:
    """One check reads the text, the other looks the names up."""
    assert tuple(NAMES) == guest.MODULES


def test_every_name_of_the_installed_release_is_refused_or_leads_to_the_language() -> None:
    """This includes the members of each name's value."""
    choice = toolchains.FAMILIES["triton"].find_installed()
    verdicts = verdicts_of([str(path) for path in toolchains.provide(choice).paths])
    assert sum(map(len, verdicts.values())) > 700
    assert list(faults(verdicts)) == []


@pytest.mark.network
@pytest.mark.parametrize("release", [*triton_releases.known_releases()])
def test_every_name_of_a_release_is_refused_or_leads_to_the_language(release: str) -> None:
    """This is tested under every release that flacheck installs."""
    (choice,) = toolchains.resolve([release]).choices
    verdicts = verdicts_of([str(path) for path in toolchains.provide(choice).paths])
    print(release, sum(map(len, verdicts.values())), "names")
    assert sum(map(len, verdicts.values())) > 600
    assert list(faults(verdicts)) == []
