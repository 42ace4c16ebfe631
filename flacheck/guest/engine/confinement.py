"""Confinement of a process to a policy by Landlock, seccomp and dropped capabilities.

A policy names the files that a process may read, execute and write. Children inherit it, and nobody
can leave it again. Everything else is refused by the kernel, whatever code runs in the process.

Landlock (Linux 5.19 with its ABI 2; linux/landlock.h) holds files, and keeps a process from reading
the memory and the environment of processes outside; since Linux 6.12 (ABI 6) also from signalling
them. seccomp refuses system calls that neither a compiler nor a Python program needs, and those
that Landlock does not see. On a kernel that lacks one of
them, the other confines alone; `available_confinement` returns what the kernel has.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import socket
import stat
import struct
import sys
from collections.abc import Callable, Mapping
from typing import TypedDict, Union


class Policy(TypedDict):
    """The files and folders that a process may use, and what else it may do.

    Whatever may be executed or written may also be read; a folder stands for all that lies below
    it. Names that do not exist are left out.
    """

    read: list[str]
    execute: list[str]
    write: list[str]
    # The user's own program: it may use sockets, signals and all system calls. Only the memory of
    # processes outside stays closed to it.
    trusted: bool


class AvailableConfinement(TypedDict):
    """The version of Landlock's ABI that the kernel has, 0 without Landlock, and seccomp."""

    landlock: int
    seccomp: bool


# From linux/landlock.h: rights of access to files, in the order of their bits.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
# The rights that the kernel accepts for what is not a folder.
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READS = _READ_FILE | _READ_DIR
# The number of rights in each version of the ABI. Version 1 is not used: it refuses to move a file
# between two folders, which each release of Triton does.
_RIGHTS_OF_ABI = {2: 14, 3: 15, 4: 15, 5: 16}
_OLDEST_ABI = 2
_TRUNCATE_ABI, _SCOPE_ABI = 3, 6
_SCOPE_ABSTRACT_SOCKET, _SCOPE_SIGNAL = 1, 2
_VERSION_FLAG, _RULE_PATH_BENEATH = 1, 1

# From linux/prctl.h, linux/seccomp.h and linux/capability.h.
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
# Without this flag, kernels before 5.16 slow the whole process down.
_FLAG_SPEC_ALLOW = 4
_RET_ALLOW, _RET_ERRNO = 0x7FFF0000, 0x00050000
_CAPABILITY_VERSION_3 = 0x20080522
# CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_FOWNER let root still use the policy's files, whoever owns
# them. CAP_PERFMON and CAP_SYS_ADMIN would bypass Landlock and open the memory of all processes.
_KEPT_CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3

# From linux/filter.h and linux/bpf_common.h: load a word, jump if equal, greater or equal, or any
# bit is set, and return.
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# Offsets in struct seccomp_data.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
# System calls of the x32 ABI have this bit.
_X32 = 0x40000000
# Flags of clone that make namespaces: CLONE_NEWTIME, -NS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET.
_NAMESPACES = 0x7E020080

# AUDIT_ARCH_… of linux/audit.h, and the column of each machine in the tables below.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_SECCOMP, _CAPGET, _CAPSET = (317, 277), (125, 90), (126, 91)
_CLONE, _TRUNCATE_CALL = (56, 220), (76, 45)
# Captured programs may run under Python 3.9, which does not support `|` between types.
_Number = Union[int, None]  # noqa: UP007
# System calls by name, with their numbers on x86_64 and aarch64; None if a machine lacks the call.
_Numbers = Mapping[str, tuple[_Number, _Number]]
# Refused.
REFUSED_CALLS: _Numbers = {
    # The whole network, and sockets of the machine's services. Socket pairs stay allowed.
    "socket": (41, 198),
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # Keys of the user.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Mounts and namespaces.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "unshare": (272, 97),
    # Programs and rings in the kernel, and calls that have been used to attack it.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "fanotify_init": (300, 262),
    "open_by_handle_at": (304, 265),
    "modify_ldt": (154, None),
    # The machine.
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "syslog": (103, 116),
    "vhangup": (153, 58),
}
# These calls do nothing and report success: mode, owner and times of files, which Landlock does not
# cover. Linkers and `shutil` change them on the side and only need them not to fail.
_PRETENDED_CALLS: _Numbers = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
}
# These calls fail as on a file system without extended attributes.
_UNSUPPORTED_CALLS: _Numbers = {
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
}
# This call fails as in a kernel that lacks it. Libraries then use `clone`, whose flags a filter can
# read.
_ABSENT_CALLS: _Numbers = {"clone3": (435, 435)}

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def available_confinement() -> AvailableConfinement:
    """Return the means that this kernel has to confine a process."""
    machine = platform.machine()
    if machine not in MACHINES:
        return {"landlock": 0, "seccomp": False}
    version = _libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < _OLDEST_ABI:
        version = 0
    action = ctypes.c_uint32(_RET_ERRNO)
    number = _for_machine(_SECCOMP)
    has_filter = _libc.syscall(number, _GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0
    return {"landlock": version, "seccomp": has_filter}


def hide() -> None:
    """Close this process's memory and environment to other processes of its user.

    It also disables core files. If the user is root, or without Landlock, the user's other
    processes stay open.
    """
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


class Confinement:
    """A policy that is ready to be entered.

    Its files are looked up once, even for many processes forked from this one.
    """

    def __init__(self, policy: Policy) -> None:
        available = available_confinement()
        self._abi, self._handled, self._rules = available["landlock"], 0, -1
        self._filter = b""
        if available["seccomp"] and not policy["trusted"]:
            self._filter = _assemble_filter(self._abi)
        if self._abi:
            self._prepare(policy)

    def _prepare(self, policy: Policy) -> None:
        right_count = _RIGHTS_OF_ABI.get(self._abi, max(_RIGHTS_OF_ABI.values()))
        self._handled = (1 << right_count) - 1
        attributes = struct.pack("=Q", self._handled)
        if self._abi >= _SCOPE_ABI and not policy["trusted"]:
            scope = _SCOPE_SIGNAL | _SCOPE_ABSTRACT_SOCKET
            attributes = struct.pack("=QQQ", self._handled, 0, scope)
        self._rules = call_kernel(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
        for path in policy["read"]:
            self._allow(path, _READS)
        for path in policy["execute"]:
            self._allow(path, _READS | _EXECUTE)
        for path in policy["write"]:
            self._allow(path, self._handled & ~_EXECUTE)

    def _allow(self, path: str, rights: int) -> None:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= _FILE_RIGHTS
            rule = struct.pack("=Qi", rights & self._handled, descriptor)
            call_kernel(_LANDLOCK_ADD, self._rules, _RULE_PATH_BENEATH, rule, 0)
        finally:
            os.close(descriptor)

    def enter(self) -> None:
        """Confine this process for good; raise OSError if the kernel refuses."""
        _drop_capabilities()
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS was refused")
        if self._rules != -1:
            # The process's own entry in /proc, which has another name in each process.
            self._allow("/proc/self", _READS | _WRITE_FILE)
            call_kernel(_LANDLOCK_RESTRICT, self._rules, 0)
            os.close(self._rules)
        if self._filter:
            program = _Program(len(self._filter) // 8, self._filter)
            number = _for_machine(_SECCOMP)
            call_kernel(number, _SET_MODE_FILTER, _FLAG_SPEC_ALLOW, ctypes.byref(program))


def _for_machine(numbers: tuple[int, int]) -> int:
    return numbers[MACHINES[platform.machine()][1]]


def call_kernel(number: int, *arguments: object) -> int:
    """Make a system call; raise OSError if it fails."""
    result: int = _libc.syscall(number, *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"system call {number}: {os.strerror(code)}")
    return result


def _drop_capabilities() -> None:
    """Give up the capabilities of root, except for using files."""
    if platform.machine() not in MACHINES:
        return
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    capability_data = ctypes.create_string_buffer(24)
    call_kernel(_for_machine(_CAPGET), header, capability_data)
    # The lower 32 capabilities, effective, permitted and inheritable; then the higher ones.
    effective_bits, permitted_bits, *_ = struct.unpack("=6I", capability_data.raw)
    effective_bits &= _KEPT_CAPABILITIES
    permitted_bits &= _KEPT_CAPABILITIES
    capabilities = struct.pack("=6I", effective_bits, permitted_bits, 0, 0, 0, 0)
    call_kernel(_for_machine(_CAPSET), header, capabilities)


def _assemble_filter(abi: int) -> bytes:
    """Return the filter of system calls as a program of classic BPF."""
    architecture, column = MACHINES[platform.machine()]
    answers: dict[int, list[tuple[_Number, _Number]]] = {
        _RET_ERRNO | errno.EPERM: list(REFUSED_CALLS.values()),
        _RET_ERRNO | 0: list(_PRETENDED_CALLS.values()),
        _RET_ERRNO | errno.ENOTSUP: list(_UNSUPPORTED_CALLS.values()),
        _RET_ERRNO | errno.ENOSYS: list(_ABSENT_CALLS.values()),
    }
    if abi < _TRUNCATE_ABI:
        answers[_RET_ERRNO | errno.EPERM].append(_TRUNCATE_CALL)
    # A jump has two counts of instructions to skip: if its condition holds, and if not.
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _RET_ERRNO | errno.EPERM),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_GREATER_EQUAL, 0, 1, _X32),
        (_RETURN, 0, 0, _RET_ERRNO | errno.EPERM),
    ]
    for answer, calls in answers.items():
        for numbers in calls:
            number = numbers[column]
            if number is not None:
                program += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, answer)]
    program += [
        (_JUMP_EQUAL, 0, 3, _CLONE[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_JUMP_SET, 0, 1, _NAMESPACES),
        (_RETURN, 0, 0, _RET_ERRNO | errno.EPERM),
        (_RETURN, 0, 0, _RET_ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def main() -> None:
    """Enter a policy, try to break out of it, and print for each way if it is closed.

    The first argument of the process is the policy. The second is a file in a folder, both of which
    the policy does not name. The output is a JSON object.
    """
    policy: Policy = json.loads(sys.argv[1])
    outside = sys.argv[2]
    Confinement(policy).enter()
    print(json.dumps(check_escapes(outside)))


def check_escapes(outside: str) -> dict[str, bool]:
    """Return for each way out of a compiler's policy if it is closed to this process.

    `outside` is a file that the policy does not name.
    """
    parent = os.getppid()
    ways: dict[str, Callable[[], object]] = {
        "reading files": lambda: open(outside).close(),
        "writing files": lambda: open(outside + ".new", "w").close(),
        "programs": lambda: _execute("/bin/sh"),
        "network": lambda: socket.socket(socket.AF_INET).close(),
        "other processes": lambda: open(f"/proc/{parent}/environ", "rb").close(),
        "signals": lambda: os.kill(parent, 0),
    }
    answers = {}
    for name, way in ways.items():
        try:
            way()
        except PermissionError:
            answers[name] = True
        else:
            answers[name] = False
    return answers


def _execute(program: str) -> None:
    """Run a program that does nothing; raise PermissionError if it may not be run."""
    child = os.fork()
    if child == 0:
        try:
            os.execv(program, [program, "-c", ":"])
        except OSError:
            os._exit(126)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == 126:
        raise PermissionError(program)
