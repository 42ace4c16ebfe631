"""Fixtures and options that many tests share."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
from packaging.version import Version

from flacheck.store import Store
from flacheck.toolchains import connections, index, wheels
from tests import fake_installer
from tests.paths import ROOT, TESTS

# A busy machine slows examples down, so they have no deadline. CI tries more of them.
EXAMPLES = 100 if "CI" in os.environ else 50
hypothesis.settings.register_profile("flacheck", deadline=None, max_examples=EXAMPLES)
hypothesis.settings.load_profile("flacheck")

# One runner at a time uses a GPU; each test process has a fake one of its own.
os.environ["CUDA_VISIBLE_DEVICES"] = f"fake-{os.getpid()}"

# The releases of Triton that the fake installer has.
RELEASES = ["3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.3.1", "3.4.0", "3.5.0", "3.9.0"]


# The errors of a package index that is slow or cannot be reached.
INDEX_ERRORS = (wheels.Offline, subprocess.TimeoutExpired)
# Seconds before CI tries again a test that could not reach the index.
RERUN_DELAY = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that CI gives."""
    parser.addoption(
        "--require-index",
        action="store_true",
        help="Fail network tests that cannot reach the package index, after a second try, or that "
        "skip for another reason. Default: skip.",
    )


def pytest_xdist_auto_num_workers() -> int:
    """Start three test processes for two CPUs: many tests wait for a process of their own."""
    return (os.cpu_count() or 1) * 3 // 2


def pytest_configure(config: pytest.Config) -> None:
    """Compile each module once for all processes of a run where Python may write no bytecode.

    Under PYTHONDONTWRITEBYTECODE hundreds of processes would compile flacheck's modules. Their
    bytecode goes to a folder that is removed afterwards, so none lies beside the modules.
    """
    if not sys.dont_write_bytecode or hasattr(config, "workerinput"):
        return
    folder = tempfile.TemporaryDirectory(prefix="flacheck-bytecode-")
    changes = pytest.MonkeyPatch()
    changes.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    changes.setenv("PYTHONPYCACHEPREFIX", folder.name)
    config.add_cleanup(folder.cleanup)
    config.add_cleanup(changes.undo)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Import a share of the test modules first, a different one in each process.

    In a new checkout pytest rewrites the assertions of every module and writes the result to a
    file: processes that begin with the same module all rewrite it.
    """
    config = session.config
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    own_number = int(worker["workerid"].removeprefix("gw"))
    for file in sorted(TESTS.rglob("test_*.py"))[own_number :: worker["workercount"]]:
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        # Collection imports the module again, and reports why it cannot be imported.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(name)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from reading all modules and tests again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run network tests a second time under --require-index after an index error."""
    if not config.getoption("--require-index"):
        return
    names = [error.__name__ for error in INDEX_ERRORS]
    again = pytest.mark.flaky(reruns=1, reruns_delay=RERUN_DELAY, only_rerun=names)
    for item in items:
        if item.get_closest_marker("network") is not None:
            item.add_marker(again)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a network test whose package index is slow or cannot be reached."""
    return (yield from skip_without_index(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Skip a network test whose fixtures cannot install what they need."""
    return (yield from skip_without_index(item))


def skip_without_index(item: pytest.Item) -> Generator[None, object, object]:
    """Turn an index error of a network test into a skip; under --require-index, a skip into a
    failure."""
    if item.get_closest_marker("network") is None:
        return (yield)
    is_required = item.config.getoption("--require-index")
    try:
        return (yield)
    except INDEX_ERRORS as error:
        if is_required:
            raise
        pytest.skip(f"the package index is slow or cannot be reached: {error}")
    except pytest.skip.Exception as skip:
        if is_required:
            pytest.fail(f"--require-index forbids this skip: {skip.msg}")
        raise


@pytest.fixture(autouse=True, scope="session")
def default_signals() -> Iterator[None]:
    """Tests and the processes that they start get the signals of a foreground process.

    A shell starts a background job with SIGINT ignored, `nohup` with SIGHUP, and each process
    inherits that.
    """
    handlers = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGQUIT: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def reachable_index() -> None:
    """No look-up of an earlier test has failed."""
    connections.forget()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store in a folder of the test's own."""
    with Store.open(tmp_path / "store") as database:
        yield database


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's own folder as the current one: files are written there, and named from there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def installer_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty cache and put the fake uv first on the PATH; return the log of its runs."""
    (tmp_path / "bin").mkdir()
    log = tmp_path / "installer.log"
    log.touch()
    path = fake_installer.put_on_path(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    monkeypatch.setenv("FLACHECK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_INSTALLER_LOG", str(log))
    monkeypatch.setattr(
        wheels, "installers", lambda: [wheels.Installer("uv", ("uv", "pip", "install"), ("uv",))]
    )
    monkeypatch.setattr(index, "available", lambda name, *_, **__: [Version(v) for v in RELEASES])
    return log
