"""Marks on launches that may depend on values made up for the program."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.captured import PRELUDE, needs_torch, recorded

GUESSES = """
def longest(x): return int(x.to(torch.int32).max())
def checked(x): assert torch.isfinite(x).all()
def attention(x, n=1):
    launch(x, n)
    checked(x)
    launch(x, n + 1)

x = torch.randn(64, device="cuda")
helper = {"__name__": "helper"}
exec(compile("def read(x): return x.sum().item()", "helper", "exec"), helper)
helper["read"](x)
launch(x, 1)
torch.utils.data.DataLoader(range(4), shuffle=True).__iter__()
launch(x, 2)
n = longest(x)
launch(x, n + 9)
x.cpu().numpy(); x[x > 0]
"""


@needs_torch
def test_a_launch_that_may_rest_on_a_made_up_value_says_so(tmp_path: Path) -> None:
    """Launches are marked while the function that read the value runs, but only its package's."""
    file = recorded(tmp_path, GUESSES)
    lines = (PRELUDE + textwrap.dedent(GUESSES)).splitlines()
    at = f"program:{1 + next(i for i, line in enumerate(lines) if 'int(x.to' in line)}"
    assert [(one.launch.args["n"]["int"], one.guessed) for one in file.launches] == [
        (1, None),
        (2, None),
        (10, at),
    ]
    last = f"program:{len(lines)}"
    assert file.end is not None
    assert file.end["guesses"]["launches"] == 1
    assert file.end["guesses"]["at"] == {"helper:1": 1, at: 1, last: 2}
    assert file.end["guesses"]["total"] == 4


@needs_torch
def test_guesses_of_a_function_that_returned_mark_nothing(tmp_path: Path) -> None:
    """The function of another package has returned, so its guess no longer counts."""
    program = """
    helper = {"__name__": "helper", "launch": launch}
    exec("def run(x, n):\\n    n += int(x.sum())\\n    launch(x, n)", helper)
    x = torch.randn(64, device="cuda")
    helper["run"](x, 5)
    launch(x, 6)
    """
    file = recorded(tmp_path, program)
    assert [(one.launch.args["n"]["int"], one.guessed) for one in file.launches] == [
        (5, "helper:2"),
        (6, None),
    ]
