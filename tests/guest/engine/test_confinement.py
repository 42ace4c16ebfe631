"""What the kernel closes to workers and programs, tried from inside of them."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flacheck.engine import policies, programs
from flacheck.engine.sandbox import WorkerKind
from flacheck.guest.engine import confinement
from flacheck.guest.engine.assembler import Assembler
from flacheck.model import Outcome
from tests import fake
from tests.engine.test_executors import attempts
from tests.made_toolkit import toolkit
from tests.paths import TESTS

ESCAPING = str(TESTS / "fake" / "escaping.py")


def expected() -> set[str]:
    """The ways that this kernel can close, by its own word: asked here once more, lest a mistake of
    flacheck's pass for a kernel that offers nothing."""
    ways = set()
    # landlock_create_ruleset with LANDLOCK_CREATE_RULESET_VERSION.
    abi = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1)
    if abi >= 2:
        ways |= {"reading files", "writing files", "programs", "other processes"}
    if abi >= 6:
        ways.add("signals")
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    if actions.is_file() and "errno" in actions.read_text():
        ways.add("network")
    return ways


def secret(folder: Path) -> Path:
    """A file that is nobody's business, in a folder of its own."""
    (folder / "outside").mkdir()
    file = folder / "outside" / "secret"
    file.write_text("hush")
    file.chmod(0o600)
    return file


def closed_to(config: dict[str, Any], outside: Path) -> dict[str, bool]:
    """The ways out of a real worker with this configuration, and whether they are closed."""
    kind = WorkerKind("escaping", {**config, "worker_file": ESCAPING, "outside": str(outside)})
    found = attempts([fake.task("any", kind)])["any"]
    assert found.outcome is Outcome.FINISHED, found.log
    return {name: value for name, value in found.facts.items() if isinstance(value, bool)}


def test_a_worker_has_no_way_out_that_the_kernel_can_close(tmp_path: Path) -> None:
    """It reads and writes no file of the user's, runs no program, reaches no network and no other
    process; where the kernel offers that, nothing of it may be missing."""
    outside = secret(tmp_path)
    closed = closed_to({"path": [], "identity": "fake==1"}, outside)
    assert {name for name, is_closed in closed.items() if is_closed} >= expected()
    assert outside.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in outside.parent.iterdir()] == ["secret"]


def test_a_worker_for_units_may_run_a_shell_and_nothing_else(tmp_path: Path) -> None:
    """nvcc gives its commands to one; all else is closed as ever."""
    outside = secret(tmp_path)
    root = str(toolkit(tmp_path))
    packages = {"p": {"path": root, "modules": []}}
    config = {"path": [], "identity": "nvcc==1", "toolkit": root, "packages": packages}
    closed = closed_to({**config, "programs": ["/bin/sh"]}, outside)
    assert not closed.pop("programs")
    assert {name for name, is_closed in closed.items() if is_closed} >= expected() - {"programs"}


def test_a_package_may_run_programs_and_nothing_else(tmp_path: Path) -> None:
    """The system's own, in a worker that imports it."""
    outside = secret(tmp_path)
    (tmp_path / "package").mkdir()
    packages = {"p": {"path": str(tmp_path / "package"), "modules": []}}
    closed = closed_to({"path": [], "identity": "fake==1", "packages": packages}, outside)
    assert not closed.pop("programs")
    assert {name for name, is_closed in closed.items() if is_closed} >= expected() - {"programs"}


def test_a_policy_is_the_users_own_only_where_that_is_meant() -> None:
    """No toolchain's worker has one from its configuration."""
    for more in ({}, {"toolkit": "/x"}, {"library": "/x"}):
        policy = policies.of_worker({"path": [], "identity": "x", **more}, "/scratch")
        assert policy["write"] == ["/scratch", "/dev/null"]
        assert not policy["trusted"]
        assert "/" not in [*policy["read"], *policy["execute"]]


def test_a_compiler_that_is_linked_is_found_where_it_lies(tmp_path: Path) -> None:
    """A source build's package is a link in the cache, and its backends are links in that."""
    backend = tmp_path / "triton" / "third_party" / "nvidia"
    package = tmp_path / "triton" / "python" / "triton"
    cached = tmp_path / "cache" / "links" / "triton-3.9.0"
    for folder in (backend, package / "backends", cached):
        folder.mkdir(parents=True)
    (package / "backends" / "nvidia").symlink_to(backend)
    (cached / "triton").symlink_to(package)
    policy = policies.of_worker({"path": [str(cached)]}, "/scratch")
    assert {str(cached), str(package), str(backend)} <= set(policy["execute"])
    assert str(tmp_path / "triton") not in policy["execute"]


@pytest.mark.parametrize("folder", ["/", "/etc", "~/.ssh", "/home"])
def test_a_build_names_no_folder_of_the_users_as_one_of_headers(folder: str) -> None:
    """It would show each file there in an error message."""
    path = str(Path(folder).expanduser())
    named = [path, "/usr/include", "/project/csrc"]
    assert policies.header_folders(named, "/project") == ["/usr/include", "/project/csrc"]


def test_the_headers_of_a_submodule_beside_the_project_are_readable(tmp_path: Path) -> None:
    """A header of CUTLASS shows that the folder is that of CUTLASS; its parent is not."""
    library = tmp_path / "csrc" / "cutlass" / "include"
    (library / "cutlass").mkdir(parents=True)
    (library / "cutlass" / "cutlass.h").write_text("")
    folders = [str(library), str(library.parent), str(tmp_path)]
    assert policies.header_folders(folders, str(tmp_path / "hopper")) == [str(library)]


LEAKS = """
import json, os, sys
found = {}
for pid in os.listdir("/proc"):
    if pid.isdigit():
        for name in ("environ", "mem", "maps", "root/etc/shadow", "cwd/secret"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    content = file.read(100_000)
            except OSError:
                continue
            # Threads of the kernel have neither memory nor variables.
            if content:
                found[f"{pid} {name}"] = b"hush" in content
own = [key for key in found if key.startswith(f"{os.getpid()} ")]
print(json.dumps({"others": sorted(set(found) - set(own)), "own": own, "leaks": any(found.values())}))
"""


@pytest.mark.skipif("other processes" not in expected(), reason="this kernel has no Landlock")
def test_a_program_reads_no_variable_of_any_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither flacheck's, nor its parent's: a secret there would be one line away."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.chdir(secret(tmp_path).parent)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ended = programs.run(
        ["-c", LEAKS],
        programs.environment(scratch),
        scratch,
        scratch / "log",
        seconds=60,
        memory_mb=2000,
        policy=policies.of_package([], str(scratch)),
    )
    said = (scratch / "log").read_text()
    assert ended.exit_code == 0, said
    found = json.loads(said)
    assert found["others"] == []
    assert not found["leaks"]
    assert any(key.endswith("environ") for key in found["own"])


def test_flacheck_itself_is_hidden_from_other_processes_of_its_user(tmp_path: Path) -> None:
    """Without Landlock that is all there is: a process that cannot be dumped shows its memory and
    its variables to root alone."""
    programs.run(
        ["-c", "pass"],
        programs.environment(tmp_path),
        tmp_path,
        tmp_path / "log",
        seconds=60,
        memory_mb=2000,
        policy=None,
    )
    get_dumpable = 3
    assert ctypes.CDLL(None).prctl(get_dumpable, 0, 0, 0, 0) == 0


@pytest.mark.skipif(
    not confinement.available_confinement()["seccomp"], reason="this kernel has no seccomp"
)
def test_refused_system_calls_are_refused(tmp_path: Path) -> None:
    """Each of the list, in a process that has nothing to lose: none does anything, or faults."""
    machine = platform.machine()
    column = confinement.MACHINES[machine][1]
    numbers = {name: pair[column] for name, pair in confinement.REFUSED_CALLS.items()}
    script = (
        "import ctypes, json, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def error(number, *rest):\n"
        "    result = libc.syscall(number, *rest)\n"
        "    return ctypes.get_errno() if result < 0 else 0\n"
        f"numbers = {numbers!r}\n"
        "print(json.dumps({n: error(k, -1, -1, -1, -1, -1) for n, k in numbers.items() if k}))\n"
        "print(os.unshare(0) if hasattr(os, 'unshare') else 'none')\n"
    )
    programs.run(
        ["-c", script],
        programs.environment(tmp_path),
        tmp_path,
        tmp_path / "log",
        seconds=60,
        memory_mb=2000,
        policy=policies.of_package([], str(tmp_path)),
    )
    answers = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert set(answers.values()) == {1}, answers


def test_a_kernel_without_either_confines_nothing_and_works_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """flacheck works as it did before; doctor reports it."""
    monkeypatch.setattr(
        confinement, "available_confinement", lambda: {"landlock": 0, "seccomp": False}
    )
    ready = confinement.Confinement(policies.of_worker({"path": []}, "/scratch"))
    assert (ready._rules, ready._filter) == (-1, b"")


@pytest.mark.parametrize("abi", [2, 3, 4, 5, 6, 7, 99])
def test_an_older_kernel_is_given_only_the_rights_that_it_knows(
    abi: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown one would make it refuse all of them."""
    made: list[tuple[object, ...]] = []

    def call(number: int, *arguments: object) -> int:
        made.append((number, *arguments))
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(
        confinement, "available_confinement", lambda: {"landlock": abi, "seccomp": False}
    )
    monkeypatch.setattr(confinement, "call_kernel", call)
    confinement.Confinement({**policies.OWN, "trusted": False})
    attributes = made[0][1]
    assert isinstance(attributes, bytes)
    assert len(attributes) == (24 if abi >= 6 else 8)
    handled = int.from_bytes(attributes[:8], "little")
    assert handled.bit_length() == {2: 14, 3: 15, 4: 15}.get(abi, 16)


def test_a_socket_pair_is_no_network(tmp_path: Path) -> None:
    """Python's own libraries use one to wake themselves."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    ended = programs.run(
        ["-c", "import asyncio; asyncio.run(asyncio.sleep(0)); print('slept')"],
        programs.environment(scratch),
        scratch,
        scratch / "log",
        seconds=60,
        memory_mb=2000,
        policy=policies.of_package([], str(scratch)),
    )
    assert (ended.exit_code, (scratch / "log").read_text()) == (0, "slept\n")


def test_an_assembler_is_started_without_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.0.0 and 3.1.0 start ptxas by one; a worker that had it could run any command."""
    monkeypatch.setattr(subprocess, "run", subprocess.run)
    Assembler("").listen()
    log, mark = tmp_path / "log", tmp_path / "mark"
    command = f"{sys.executable} -c 1/0 ; touch {mark} 2> {log}"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        subprocess.run(command, shell=True, check=True)
    assert caught.value.returncode == 1
    assert "ZeroDivisionError" in log.read_text()
    assert not mark.exists()
