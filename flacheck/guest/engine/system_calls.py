"""The system calls of a confined process: an allow-list, and its filter as a program of BPF.

The list holds the calls of compilers, linkers, build tools, Python and torch that reach nothing
beyond the process, its descendants and the files that Landlock grants. Any other call is refused:
EPERM up to the newest call that this list was made for, ENOSYS above, as in a kernel that lacks the
call, so that libraries use an older one.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Union

# Captured programs may run under Python 3.9, which does not support `|` between types.
_Number = Union[int, None]  # noqa: UP007
Numbers = Mapping[str, tuple[_Number, _Number]]


def _table(text: str) -> Numbers:
    """Return names with numbers on x86_64 and aarch64; "-" if a machine lacks the call."""
    calls = {}
    for row in text.split(","):
        name, *numbers = row.split()
        on_x86, on_arm = (None if number == "-" else int(number) for number in numbers)
        calls[name] = (on_x86, on_arm)
    return calls


# AUDIT_ARCH_… of linux/audit.h, and the column of each machine in the tables below.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
# The newest call that these tables consider: file_setattr of Linux 6.17.
NEWEST_CALL = 469

ALLOWED_CALLS: Numbers = {
    # Open files.
    **_table("""
        read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68,
        preadv 295 69, pwritev 296 70, preadv2 327 286, pwritev2 328 287, lseek 8 62, close 3 57,
        close_range 436 436, dup 32 23, dup2 33 -, dup3 292 24, fcntl 72 25, ioctl 16 29,
        fstat 5 80, fstatfs 138 44, ftruncate 77 46, fallocate 285 47, fadvise64 221 223,
        readahead 187 213,
        flock 73 32, fsync 74 82, fdatasync 75 83, sync_file_range 277 84, sendfile 40 71,
        copy_file_range 326 285, splice 275 76, getdents 78 -, getdents64 217 61, pipe 22 -,
        pipe2 293 59, umask 95 166
    """),
    # Files by name, which Landlock confines.
    **_table("""
        open 2 -, openat 257 56, openat2 437 437, creat 85 -, access 21 -, faccessat 269 48,
        faccessat2 439 439, stat 4 -, lstat 6 -, newfstatat 262 79, statx 332 291, statfs 137 43,
        readlink 89 -, readlinkat 267 78, getcwd 79 17, chdir 80 49, fchdir 81 50, mkdir 83 -,
        mkdirat 258 34, mknod 133 -, mknodat 259 33, rmdir 84 -, unlink 87 -, unlinkat 263 35,
        rename 82 -, renameat 264 38, renameat2 316 276, link 86 -, linkat 265 37, symlink 88 -,
        symlinkat 266 36, truncate 76 45, execve 59 221
    """),
    # Waiting and time.
    **_table("""
        poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -,
        epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22,
        epoll_pwait2 441 441, eventfd 284 -, eventfd2 290 19, signalfd 282 -, signalfd4 289 74,
        timerfd_create 283 85, timerfd_settime 286 86, timerfd_gettime 287 87, nanosleep 35 101,
        clock_nanosleep 230 115, clock_gettime 228 113, clock_getres 229 114, gettimeofday 96 169,
        time 201 -, times 100 153, alarm 37 -, getitimer 36 102, setitimer 38 103,
        timer_create 222 107, timer_settime 223 110, timer_gettime 224 108,
        timer_getoverrun 225 109, timer_delete 226 111, pause 34 -, restart_syscall 219 128
    """),
    # The process's own memory.
    **_table("""
        brk 12 214, mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, madvise 28 233,
        msync 26 227, mincore 27 232, mlock 149 228, mlock2 325 284, munlock 150 229,
        membarrier 324 283, memfd_create 319 279, mseal 462 462, mbind 237 235,
        get_mempolicy 239 236, set_mempolicy 238 237
    """),
    # Processes and threads. Landlock confines signals. Without capabilities, a process changes only
    # to users and groups that it has already, as `make` does.
    **_table("""
        clone 56 220, fork 57 -, vfork 58 -, exit 60 93, exit_group 231 94, wait4 61 260,
        waitid 247 95, arch_prctl 158 -, prctl 157 167, set_tid_address 218 96,
        set_robust_list 273 99, rseq 334 293, futex 202 98, futex_waitv 449 449,
        futex_wake 454 454, futex_wait 455 455, futex_requeue 456 456, sched_yield 24 124,
        sched_getaffinity 204 123, sched_setaffinity 203 122, sched_getparam 143 121,
        sched_getscheduler 145 120, sched_get_priority_max 146 125,
        sched_get_priority_min 147 126, getcpu 309 168, getpriority 140 141, setpriority 141 140,
        getpid 39 172, getppid 110 173, gettid 186 178, getpgid 121 155, getpgrp 111 -,
        getsid 124 156, setpgid 109 154, setsid 112 157, getuid 102 174, geteuid 107 175,
        getgid 104 176, getegid 108 177, getresuid 118 148, getresgid 120 150, getgroups 115 158,
        setuid 105 146, setgid 106 144, setreuid 113 145, setregid 114 143, setresuid 117 147,
        setresgid 119 149,
        capget 125 90, getrlimit 97 163, setrlimit 160 164, prlimit64 302 261, getrusage 98 165,
        rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigpending 127 136, rt_sigtimedwait 128 137,
        rt_sigsuspend 130 133, rt_sigreturn 15 139, sigaltstack 131 132, kill 62 129,
        tkill 200 130, tgkill 234 131
    """),
    # Pairs of sockets. A socket of any other kind cannot be made.
    **_table("""
        socketpair 53 199, sendmsg 46 211, recvmsg 47 212, sendto 44 206, recvfrom 45 207,
        sendmmsg 307 269, recvmmsg 299 243, shutdown 48 210, getsockopt 55 209,
        setsockopt 54 208, getsockname 51 204, getpeername 52 205
    """),
    # The machine.
    **_table("uname 63 160, sysinfo 99 179, getrandom 318 278"),
}
# These calls do nothing and report success: mode, owner and times of files, which Landlock does not
# cover. Linkers and `shutil` change them on the side and only need them not to fail.
PRETENDED_CALLS = _table("""
    chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -, fchown 93 55,
    lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -, futimesat 261 -, utimensat 280 88
""")
# These calls fail as on a file system without extended attributes and flags.
UNSUPPORTED_CALLS = _table("""
    setxattr 188 5, lsetxattr 189 6, fsetxattr 190 7, setxattrat 463 463, getxattr 191 8,
    lgetxattr 192 9, fgetxattr 193 10, getxattrat 464 464, listxattr 194 11, llistxattr 195 12,
    flistxattr 196 13, listxattrat 465 465, removexattr 197 14, lremovexattr 198 15,
    fremovexattr 199 16, removexattrat 466 466, file_getattr 468 468, file_setattr 469 469
""")
# This call fails as in a kernel that lacks it. Libraries then use `clone`, whose flags a filter can
# read.
ABSENT_CALLS = _table("clone3 435 435")


class _Condition(NamedTuple):
    """A condition on the lower half of an argument: one of the values, or none of the bits.

    A call that violates it fails with `error`.
    """

    argument: int
    values: tuple[int, ...] = ()
    refused_bits: int = 0
    error: int = errno.EPERM


# Flags of clone that make namespaces: CLONE_NEWTIME, -NS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET.
_NAMESPACES = 0x7E020080
# From linux/fcntl.h: descriptors, flags, locks, F_DUPFD_CLOEXEC, sizes of pipes and seals. Others
# send signals, watch folders and hold files of the user (F_SETOWN, F_NOTIFY, F_SETLEASE).
_DESCRIPTOR_COMMANDS = (*range(8), 36, 37, 38, *range(1030, 1035))
# From asm-generic/ioctls.h: TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX and FIOCLEX.
# Others change flags of files that are only open for reading (FS_IOC_SETFLAGS).
_DEVICE_REQUESTS = (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
CONDITIONS: Mapping[str, Sequence[_Condition]] = {
    "clone": [_Condition(0, refused_bits=_NAMESPACES)],
    "fcntl": [_Condition(1, _DESCRIPTOR_COMMANDS, error=errno.EINVAL)],
    "ioctl": [_Condition(1, _DEVICE_REQUESTS, error=errno.ENOTTY)],
    # 0 is the process or thread itself. libc uses it for getrlimit, setrlimit and nice.
    "prlimit64": [_Condition(0, (0,))],
    "sched_setaffinity": [_Condition(0, (0,))],
    "setpriority": [_Condition(0, (0,)), _Condition(1, (0,))],
    # AF_UNIX without SOCK_DGRAM and SOCK_RAW: a datagram can be sent to a service of the machine.
    "socketpair": [_Condition(0, (1,)), _Condition(1, refused_bits=2)],
}

# From linux/filter.h and linux/bpf_common.h: load a word, jump, jump if equal, if greater or equal,
# if any bit is set, and return. The two counts of a jump are the instructions to skip if its
# condition holds and if not; that of an unconditional jump is its value.
_Instruction = tuple[int, int, int, int]
_LOAD, _JUMP, _RETURN = 0x20, 0x05, 0x06
_JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET = 0x15, 0x35, 0x45
# Offsets in struct seccomp_data. An argument has eight bytes, the lower half first.
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
# From linux/seccomp.h.
_RET_ALLOW, RET_ERRNO = 0x7FFF0000, 0x00050000
_ALLOW: _Instruction = (_RETURN, 0, 0, _RET_ALLOW)


def assemble_filter(without: Sequence[str] = ()) -> bytes:
    """Return the filter of system calls for this machine; `without` are refused as well."""
    architecture, column = MACHINES[platform.machine()]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        _fail(errno.EPERM),
        (_LOAD, 0, 0, _NUMBER),
        *_search(list(_runs(_answers(column, without)))),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _fail(error: int) -> _Instruction:
    return _RETURN, 0, 0, RET_ERRNO | error


def _answers(column: int, without: Sequence[str]) -> list[list[_Instruction]]:
    """Return the instructions for each number of a system call, and last for all above."""
    answers = [[_fail(errno.EPERM)]] * (NEWEST_CALL + 1)
    answers.append([_fail(errno.ENOSYS)])
    for calls, error in (
        (PRETENDED_CALLS, 0),
        (UNSUPPORTED_CALLS, errno.ENOTSUP),
        (ABSENT_CALLS, errno.ENOSYS),
    ):
        for numbers in calls.values():
            if (number := numbers[column]) is not None:
                answers[number] = [_fail(error)]
    for name, numbers in ALLOWED_CALLS.items():
        if (number := numbers[column]) is not None and name not in without:
            answers[number] = [*_check(CONDITIONS.get(name, ())), _ALLOW]
    return answers


def _check(conditions: Sequence[_Condition]) -> Iterator[_Instruction]:
    """Yield the instructions that fail a call unless all conditions hold."""
    for condition in conditions:
        yield _LOAD, 0, 0, _FIRST_ARGUMENT + 8 * condition.argument
        for remaining, value in zip(range(len(condition.values), 0, -1), condition.values):
            yield _JUMP_EQUAL, remaining, 0, value
        if condition.refused_bits:
            yield _JUMP_SET, 0, 1, condition.refused_bits
        yield _fail(condition.error)


_Run = tuple[int, list[_Instruction]]


def _runs(answers: list[list[_Instruction]]) -> Iterator[_Run]:
    """Yield each number whose answer differs from that of the number before, with the answer."""
    before = None
    for number, answer in enumerate(answers):
        if answer != before:
            yield number, answer
        before = answer


def _search(runs: list[_Run]) -> list[_Instruction]:
    """Return a binary search for the loaded number: seven comparisons instead of hundreds."""
    if len(runs) == 1:
        return runs[0][1]
    middle = len(runs) // 2
    low, high = _search(runs[:middle]), _search(runs[middle:])
    # The distance may exceed what a conditional jump can skip.
    jumps = [(_JUMP_GREATER_EQUAL, 0, 1, runs[middle][0]), (_JUMP, 0, 0, len(low))]
    return [*jumps, *low, *high]
