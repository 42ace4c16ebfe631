"""Confinement of a process to a policy by Landlock, seccomp, namespaces and dropped capabilities.

A policy names the files that a process may read, execute and write. Child processes inherit it, and
no process can leave it again. Everything else is refused by the kernel, whatever code runs in the
process.

Landlock (Linux 5.19 with its ABI 2; linux/landlock.h) holds files, and keeps a process from reading
the memory and the environment of processes outside; since Linux 6.7 (ABI 4) also from TCP, since
6.12 (ABI 6) from signalling processes outside and from their abstract sockets. seccomp allows the
system calls of `system_calls` only. Namespaces give the process an empty /dev/shm, and hide the
machine's connections and message queues. A kernel that lacks some of them confines with the others;
`available_confinement` returns what the kernel has.
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct
from typing import TypedDict

from . import namespaces
from .system_calls import MACHINES, RET_ERRNO, assemble_filter


class Policy(TypedDict):
    """The files and folders that a process may use, and what else it may do.

    Whatever may be executed or written may also be read; a folder stands for all that lies below
    it. Names that do not exist are ignored.
    """

    read: list[str]
    execute: list[str]
    write: list[str]
    # Folders that are empty at first and the process's own, where namespaces can be made; elsewhere
    # they are closed.
    private: list[str]
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

# The ABI with rules for TCP, and its rights to bind and to connect.
_NETWORK_ABI, _NETWORK_RIGHTS = 4, 3

# From linux/prctl.h, linux/seccomp.h and linux/capability.h.
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
# Without this flag, kernels before 5.16 slow the whole process down.
_FLAG_SPEC_ALLOW = 4
_CAPABILITY_VERSION_3 = 0x20080522
# CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_FOWNER let root still use the policy's files, whoever owns
# them. CAP_PERFMON and CAP_SYS_ADMIN would bypass Landlock and open the memory of all processes.
_KEPT_CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_SECCOMP, _CAPGET, _CAPSET = (317, 277), (125, 90), (126, 91)

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
    action = ctypes.c_uint32(RET_ERRNO)
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
        self._filter, self._flags = b"", 0
        self._private = policy["private"]
        if not policy["trusted"]:
            self._flags = namespaces.find_flags()
        if available["seccomp"] and not policy["trusted"]:
            has_truncate_rights = self._abi >= _TRUNCATE_ABI
            self._filter = assemble_filter([] if has_truncate_rights else ["truncate"])
        if self._abi:
            self._prepare(policy)

    @property
    def has_namespaces(self) -> bool:
        """True if this machine lets the process make namespaces."""
        return self._flags != 0

    def _prepare(self, policy: Policy) -> None:
        right_count = _RIGHTS_OF_ABI.get(self._abi, max(_RIGHTS_OF_ABI.values()))
        self._handled = (1 << right_count) - 1
        attributes = struct.pack("=Q", self._handled)
        if self._abi >= _NETWORK_ABI and not policy["trusted"]:
            attributes += struct.pack("=Q", _NETWORK_RIGHTS)
        if self._abi >= _SCOPE_ABI and not policy["trusted"]:
            attributes += struct.pack("=Q", _SCOPE_SIGNAL | _SCOPE_ABSTRACT_SOCKET)
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
        """Confine this process for good; raise OSError if the kernel refuses.

        The process must have a single thread.
        """
        if self._flags:
            namespaces.enter(self._flags, self._private)
        _drop_capabilities()
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS was refused")
        if self._rules != -1:
            for path in self._private if self._flags else ():
                self._allow(path, self._handled & ~_EXECUTE)
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
