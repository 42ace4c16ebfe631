"""The pytest plugin: `pytest --flacheck` compiles what a suite launches under other releases.

pytest imports this module in every run, so it imports nothing of flacheck's but what an option
needs, and is written for every pytest that is in use.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flacheck.pytest_plugin import recording

if TYPE_CHECKING:
    import argparse

_LAUNCHES = Path(".flacheck") / "pytest.jsonl"
_SCRIPTS = ("pytest", "py.test")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("flacheck", "Triton kernels under other releases and GPUs")
    group.addoption(
        "--flacheck",
        action="store_true",
        help="Record the launches of the tests; a kernel that does not compile under a release on "
        "a GPU is a failed test.",
    )
    group.addoption(
        "--flacheck-triton",
        action="append",
        default=[],
        metavar="SPEC",
        help="Triton releases, such as 3.6.0,3.7.1 or '>=3.4'. Default: the installed one.",
    )
    group.addoption(
        "--flacheck-target",
        action="append",
        default=[],
        metavar="GPU",
        help="GPUs, such as h100 or sm80. Default: those of flacheck scan.",
    )
    group.addoption(
        "--flacheck-baseline",
        metavar="FILE",
        help="Failures in this baseline of flacheck do not count.",
    )
    group.addoption(
        "--flacheck-device",
        default="h100",
        metavar="CARD",
        help="The card to imitate while the tests run, or real for the one that is here. Default: "
        "h100.",
    )


# In pluggy's older form, which every release of it reads. It comes before pytest's capture of the
# output, which would hide that of the recorded run, and before a conftest can import torch.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Run the suite under the recorder in another process, and end with its exit code."""
    options = early_config.known_args_namespace
    only_shows = options.help or options.version or options.collectonly
    if options.flacheck and not only_shows and not recording.is_on():
        arguments = list(map(str, early_config.invocation_params.args))
        raise SystemExit(_record(arguments, options))
    yield


def pytest_configure(config: pytest.Config) -> None:
    """Watch a recorded run: its tests and, at the end, its launches."""
    if config.getoption("flacheck") and recording.is_on():
        from flacheck.pytest_plugin.recorded_run import RecordedRun

        config.pluginmanager.register(RecordedRun(config), "flacheck-recorded-run")


def _record(arguments: list[str], options: argparse.Namespace) -> int:
    """Run pytest with the same arguments under the recorder; return its exit code.

    Raises:
        pytest.UsageError: If a GPU is unknown, or the baseline or the folder cannot be used.
    """
    import flacheck
    from flacheck.api import settings
    from flacheck.api.arguments import read_baseline
    from flacheck.cli.termination import terminable

    # A script on the PATH does not put the current folder on Python's path, as `-m` does.
    command = [sys.executable, "-m", "pytest", *arguments]
    if Path(sys.argv[0]).name in _SCRIPTS:
        command = [sys.executable, sys.argv[0], *arguments]
    try:
        # Mistakes are reported before the tests run.
        read_baseline(options.flacheck_baseline)
        settings.check("target", options.flacheck_target)
        _LAUNCHES.parent.mkdir(exist_ok=True)
        with terminable():
            capture = flacheck.capture(command, output=_LAUNCHES, device=options.flacheck_device)
    except (flacheck.FlacheckError, OSError) as error:
        raise pytest.UsageError(f"--flacheck: {error}") from None
    return capture.exit_code
