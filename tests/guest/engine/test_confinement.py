"""The ways out of the sandbox, tried from inside workers and programs."""

from __future__ import annotations

import ast
import ctypes
import errno
import json
import os
import platform
import re
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flacheck.engine import policies, programs
from flacheck.engine.sandbox import WorkerKind
from flacheck.guest.engine import confinement, system_calls
from flacheck.guest.engine.assembler import Assembler
from flacheck.guest.engine.escapes import Bait, lay_bait
from flacheck.model import Outcome
from tests import fake
from tests.engine.test_executors import attempts
from tests.escaping import code, expected
from tests.made_toolkit import toolkit
from tests.paths import ROOT, TESTS

ESCAPING = str(TESTS / "fake" / "escaping.py")
HAS_LANDLOCK = confinement.available_confinement()["landlock"] > 0
HAS_SECCOMP = confinement.available_confinement()["seccomp"]


@pytest.fixture
def bait(tmp_path: Path) -> Iterator[Bait]:
    """Provide bait for one test, which must stay as it is."""
    folder = tmp_path / "outside"
    folder.mkdir()
    with lay_bait(str(folder)) as laid:
        file = Path(laid["file"])
        mode = file.stat().st_mode
        limits = resource.getrlimit(resource.RLIMIT_CORE)
        yield laid
        assert [other.name for other in folder.iterdir()] == ["secret"]
        assert file.stat().st_mode == mode
        assert os.listxattr(file) == []
        assert resource.getrlimit(resource.RLIMIT_CORE) == limits


def worker_configs(folder: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """Return a config of each kind of worker, with what is left open to it on purpose."""
    root = str(toolkit(folder))
    (folder / "package").mkdir()
    package = {"p": {"path": str(folder / "package"), "modules": []}}
    unit = {"p": {"path": root, "modules": []}}
    return {
        "triton": ({}, ""),
        "nvcc": ({"toolkit": root, "packages": unit, "programs": ["/bin/sh"]}, "programs"),
        "package": ({"packages": package}, "programs"),
        "inductor": ({"torch": str(folder / "package")}, "programs"),
    }


@pytest.mark.parametrize("name", ["triton", "nvcc", "package", "inductor"])
def test_a_worker_has_no_way_out_that_the_machine_can_close(
    name: str, bait: Bait, tmp_path: Path
) -> None:
    """Each way is closed to workers of any kind; nvcc's shell and the system's programs still
    run."""
    config, open_name = worker_configs(tmp_path)[name]
    config = {"path": [], "identity": "x==1", **config, "worker_file": ESCAPING, "bait": bait}
    (attempt,) = attempts([fake.task("any", WorkerKind("escaping", config))]).values()
    assert attempt.outcome is Outcome.FINISHED, attempt.log
    ways_closed = {way for way, is_closed in attempt.facts.items() if is_closed is True}
    assert ways_closed == expected(open_name)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """The folder that a program may write."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("is_package", [False, True])
def test_a_program_has_no_way_out_either(is_package: bool, bait: Bait, scratch: Path) -> None:
    """A repro's script may run Python and a shell; a package may run the system's programs."""
    policy = policies.of_script([], str(scratch))
    if is_package:
        policy = policies.of_package([], str(scratch))
    assert closed_to_program(policy, bait, scratch) == expected("programs")


@pytest.mark.skipif(not HAS_LANDLOCK or not HAS_SECCOMP, reason="the others cannot confine alone")
@pytest.mark.parametrize("is_package", [False, True])
def test_without_namespaces_the_others_close_what_they_can(
    is_package: bool, bait: Bait, scratch: Path
) -> None:
    """A container may refuse namespaces: /dev/shm is closed then; packages see connections."""
    policy = policies.of_script([], str(scratch))
    if is_package:
        policy = policies.of_package([], str(scratch))
    without = "from flacheck.guest.engine import confinement, namespaces\n"
    without += "namespaces.find_flags = lambda: 0\n"
    without += f"confinement.Confinement({policy!r}).enter()\n"
    result = subprocess.run(
        [sys.executable, "-c", without + code(bait) + "print(closed)"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert result.returncode == 0, result.stderr
    open_names = {"connections"} if is_package else set()
    assert set(ast.literal_eval(result.stdout)) == expected("programs") - open_names


def closed_to_program(policy: confinement.Policy, bait: Bait, folder: Path) -> set[str]:
    """Return the ways that are closed to a program of this policy, which writes to the folder."""
    end = programs.run(
        ["-I", "-S", "-c", code(bait) + "print(closed)"],
        programs.environment(folder),
        folder,
        folder / "log",
        seconds=60,
        memory_mb=2000,
        policy=policy,
    )
    log = (folder / "log").read_text()
    assert end.exit_code == 0, log
    return set(ast.literal_eval(log))


def test_every_way_is_open_to_a_process_without_a_policy(tmp_path: Path) -> None:
    """Without a policy every probe succeeds, so that a failing probe shows the sandbox."""
    (tmp_path / "outside").mkdir()
    with lay_bait(str(tmp_path / "outside")) as bait:
        script = code(bait) + "print(closed)"
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    needs_newer_kernel = {"attributes of files"}
    assert set(ast.literal_eval(result.stdout)) <= needs_newer_kernel, result.stderr


def test_a_policy_is_the_users_own_only_where_that_is_meant() -> None:
    """No toolchain's worker takes a policy from its configuration."""
    for more in ({}, {"toolkit": "/x"}, {"library": "/x"}):
        policy = policies.of_worker({"path": [], "identity": "x", **more}, "/scratch")
        assert policy["write"] == ["/scratch", "/dev/null"]
        assert not policy["trusted"]
        assert "/" not in [*policy["read"], *policy["execute"]]


def test_a_compiler_that_is_linked_is_found_where_it_lies(tmp_path: Path) -> None:
    """The cache links to the package of a source build, which links to its backends."""
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
    """A compiler's error message would show the content of files there."""
    path = str(Path(folder).expanduser())
    arguments = [path, "/usr/include", "/project/csrc"]
    assert policies.header_folders(arguments, "/project") == ["/usr/include", "/project/csrc"]


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


@pytest.mark.skipif(not HAS_LANDLOCK, reason="this kernel has no Landlock")
def test_a_program_reads_no_variable_of_any_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables of flacheck and its parent are closed, because they may hold secrets."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("hush")
    monkeypatch.chdir(tmp_path / "outside")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    end = programs.run(
        ["-c", LEAKS],
        programs.environment(scratch),
        scratch,
        scratch / "log",
        seconds=60,
        memory_mb=2000,
        policy=policies.of_package([], str(scratch)),
    )
    text = (scratch / "log").read_text()
    assert end.exit_code == 0, text
    outcome = json.loads(text)
    assert outcome["others"] == []
    assert not outcome["leaks"]
    assert any(key.endswith("environ") for key in outcome["own"])


def test_flacheck_itself_is_hidden_from_other_processes_of_its_user(tmp_path: Path) -> None:
    """Without Landlock this is the only means.

    A process that cannot be dumped shows its memory and variables to root only.
    """
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


REFUSALS = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
numbers = json.loads(sys.argv[1])
def call(number):
    result = libc.syscall(number, -1, -1, -1, -1, -1, -1)
    return ctypes.get_errno() if result < 0 else -result
print(json.dumps([call(number) for number in numbers]))
"""


def errors_of_calls(numbers: list[int], folder: Path) -> list[int]:
    """Return the error of each system call in a package's process, -result of one that succeeds."""
    programs.run(
        ["-c", REFUSALS, json.dumps(numbers)],
        programs.environment(folder),
        folder,
        folder / "log",
        seconds=60,
        memory_mb=2000,
        policy=policies.of_package([], str(folder)),
    )
    errors: list[int] = json.loads((folder / "log").read_text())
    return errors


def numbers_of(calls: system_calls.Numbers) -> set[int]:
    """The numbers of these calls on this machine."""
    column = system_calls.MACHINES[platform.machine()][1]
    return {pair[column] for pair in calls.values() if pair[column] is not None}  # type: ignore[misc]


@pytest.mark.skipif(not HAS_SECCOMP, reason="this kernel has no seccomp")
def test_a_call_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    """Every call up to the newest known one is tried, in a disposable process."""
    numbers = numbers_of(system_calls.ALLOWED_CALLS) | numbers_of(system_calls.PRETENDED_CALLS)
    numbers |= numbers_of(system_calls.UNSUPPORTED_CALLS) | numbers_of(system_calls.ABSENT_CALLS)
    # The kernel does not show seccomp its calls for probes, which end any other caller.
    unseen = {335, 336} if platform.machine() == "x86_64" else set()
    others = sorted(set(range(system_calls.NEWEST_CALL + 1)) - numbers - unseen)
    assert len(others) > 100
    assert set(errors_of_calls(others, tmp_path)) == {errno.EPERM}


@pytest.mark.skipif(not HAS_SECCOMP, reason="this kernel has no seccomp")
def test_calls_of_newer_kernels_and_other_abis_are_absent(tmp_path: Path) -> None:
    """Libraries then use an older call; the calls of x32 have a high bit."""
    first = system_calls.NEWEST_CALL + 1
    absent = [*range(first, first + 100), 0x40000000, 0x40000000 + 520, 0x7FFFFFFF]
    absent += numbers_of(system_calls.ABSENT_CALLS)
    assert set(errors_of_calls(absent, tmp_path)) == {errno.ENOSYS}


@pytest.mark.skipif(not HAS_SECCOMP, reason="this kernel has no seccomp")
def test_attributes_do_not_change_and_modes_only_seem_to(tmp_path: Path) -> None:
    """Extended attributes are unsupported, and `chmod` succeeds without effect, as linkers need
    it."""
    absent = sorted(numbers_of(system_calls.UNSUPPORTED_CALLS))
    assert set(errors_of_calls(absent, tmp_path)) == {errno.ENOTSUP}
    ignored = sorted(numbers_of(system_calls.PRETENDED_CALLS))
    assert set(errors_of_calls(ignored, tmp_path)) == {0}


def header_numbers(header: str, *defines: str) -> dict[str, int]:
    """The numbers of system calls in a header of Linux, {} without it or a compiler."""
    if shutil.which("gcc") is None:
        return {}
    text = f"#include <{header}>\n"
    command = ["gcc", "-E", "-dM", *defines, "-"]
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    values = dict(re.findall(r"#define (__NR\w*) (\w+)", result.stdout))
    numbers = {}
    for name, value in values.items():
        while value in values:
            value = values[value]
        if name.startswith("__NR_") and value.isdigit():
            numbers[name.removeprefix("__NR_")] = int(value)
    return numbers


@pytest.mark.parametrize(
    ("machine", "header"),
    [("x86_64", "asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")],
)
def test_the_numbers_are_those_of_linux(machine: str, header: str) -> None:
    """The numbers are read from Linux's headers; aarch64 uses the generic table."""
    wants = ("RENAMEAT", "NEW_STAT", "SET_GET_RLIMIT", "TIME32_SYSCALLS", "SYS_CLONE3")
    numbers = header_numbers(header, *(f"-D__ARCH_WANT_{name}" for name in wants))
    if not numbers:
        pytest.skip("the headers of this machine are absent")
    column = system_calls.MACHINES[machine][1]
    tables = [system_calls.ALLOWED_CALLS, system_calls.PRETENDED_CALLS]
    tables += [system_calls.UNSUPPORTED_CALLS, system_calls.ABSENT_CALLS]
    by_name = {name: pair[column] for calls in tables for name, pair in calls.items()}
    # A call that is newer than the header stands in none.
    newest = max(numbers.values())
    wrong = {
        name: (number, numbers.get(name))
        for name, number in by_name.items()
        if number != numbers.get(name) and (number is None or number <= newest)
    }
    assert wrong == {}


@pytest.mark.parametrize("machine", list(system_calls.MACHINES))
def test_a_filter_answers_each_call_as_the_lists_do(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter runs the filter for both machines; another architecture is refused."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    architecture, column = system_calls.MACHINES[machine]
    program = system_calls.assemble_filter(["truncate"])
    assert len(program) // 8 < 4096
    allow, error = 0x7FFF0000, 0x00050000

    def answer(number: int, *arguments: int, arch: int = architecture) -> int:
        return run_filter(program, number, arch, arguments)

    by_name = {name: pair[column] for name, pair in system_calls.ALLOWED_CALLS.items()}
    for name, number in by_name.items():
        if number is not None and name not in system_calls.CONDITIONS:
            assert answer(number) == (error | errno.EPERM if name == "truncate" else allow), name
    assert answer(by_name["read"] or 0, arch=0x40000003) == error | errno.EPERM
    prlimit, ioctl = by_name["prlimit64"] or 0, by_name["ioctl"] or 0
    assert (answer(prlimit, 0), answer(prlimit, 4711)) == (allow, error | errno.EPERM)
    assert (answer(ioctl, 3, 0x5401), answer(ioctl, 3, 0x40086602)) == (
        allow,
        error | errno.ENOTTY,
    )
    assert answer(by_name["clone"] or 0, 0x10000000) == error | errno.EPERM
    pair = by_name["socketpair"] or 0
    assert [answer(pair, 1, kind | 0x80800) == allow for kind in (1, 2, 3, 5)] == [
        True,
        False,
        False,
        True,
    ]


def run_filter(program: bytes, number: int, arch: int, arguments: tuple[int, ...]) -> int:
    """Return the result of the classic BPF filter for a system call."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    at = accumulator = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        if code == 0x06:
            return int(value)
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif code == 0x05:
            at += value
        else:
            tests = {
                0x15: accumulator == value,
                0x35: accumulator >= value,
                0x45: bool(accumulator & value),
            }
            at += if_true if tests[code] else if_false


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
    """An unknown right would make the kernel refuse all rights."""
    calls: list[tuple[object, ...]] = []

    def call(number: int, *arguments: object) -> int:
        calls.append((number, *arguments))
        return os.open(os.devnull, os.O_RDONLY)

    monkeypatch.setattr(
        confinement, "available_confinement", lambda: {"landlock": abi, "seccomp": False}
    )
    monkeypatch.setattr(confinement, "call_kernel", call)
    confinement.Confinement({**policies.OWN, "trusted": False})
    attributes = calls[0][1]
    assert isinstance(attributes, bytes)
    assert len(attributes) == {2: 8, 3: 8, 4: 16, 5: 16}.get(abi, 24)
    rights = int.from_bytes(attributes[:8], "little")
    assert rights.bit_length() == {2: 14, 3: 15, 4: 15}.get(abi, 16)


def test_a_socket_pair_is_no_network(tmp_path: Path) -> None:
    """Python's own libraries use a socket pair to wake themselves."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    end = programs.run(
        ["-c", "import asyncio; asyncio.run(asyncio.sleep(0)); print('slept')"],
        programs.environment(scratch),
        scratch,
        scratch / "log",
        seconds=60,
        memory_mb=2000,
        policy=policies.of_package([], str(scratch)),
    )
    assert (end.exit_code, (scratch / "log").read_text()) == (0, "slept\n")


def test_an_assembler_is_started_without_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """3.0.0 and 3.1.0 start ptxas by a shell; a worker with a shell could run any command."""
    monkeypatch.setattr(subprocess, "run", subprocess.run)
    Assembler("").listen()
    log, mark = tmp_path / "log", tmp_path / "mark"
    command = f"{sys.executable} -c 1/0 ; touch {mark} 2> {log}"
    with pytest.raises(subprocess.CalledProcessError) as caught:
        subprocess.run(command, shell=True, check=True)
    assert caught.value.returncode == 1
    assert "ZeroDivisionError" in log.read_text()
    assert not mark.exists()
