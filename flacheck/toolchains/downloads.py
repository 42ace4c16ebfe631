"""The bytes that an installer has received, and the size of the files that it fetches."""

import re
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from flacheck.tables.settings.durations import rounded
from flacheck.toolchains import connections, index_pages
from flacheck.toolchains.index_pages import IndexFile, UnreadPage
from flacheck.toolchains.index_sources import Sources

_MEGABYTE = 1e6
_PAGES_AT_ONCE = 8
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)==([\w.!+]+)")
# From linux/netlink.h, sock_diag.h, inet_diag.h and tcp.h.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST_AND_DUMP = 0x301
_DONE, _ERROR = 3, 2
_INET_DIAG_INFO = 2
_ALL_STATES = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")
_QUERY = struct.Struct("=BBBBI48x")
_ATTRIBUTE = struct.Struct("=HH")
# An answer's inode, its attributes, and `tcpi_bytes_received` in the attribute `tcp_info`.
_INODE = 68
_ATTRIBUTES = 72
_BYTES_RECEIVED = 128


class Download:
    """The download of one installer: its process, and the bytes that it fetches, 0 if unknown."""

    def __init__(self, process: int, size: int) -> None:
        self._process = process
        self._size = size
        self._received: dict[int, int] = {}
        self._at_last_line = 0
        self._began = time.monotonic()

    def poll(self) -> None:
        """Note the bytes of each open connection; a closed one counts with its last number."""
        inodes = set(_socket_inodes(self._process))
        for inode, received in _received_by_inode().items():
            if inode in inodes:
                self._received[inode] = received

    @property
    def received(self) -> int:
        """The bytes received so far."""
        return sum(self._received.values())

    def line(self) -> str:
        """Return bytes, percent and time left: `, 120 of 286 MB, 42 %, 9 s left`.

        Empty for less than a megabyte: the installer then reads pages, or files of its cache.
        Without a size only the bytes are in the line. The time left is that of the download, absent
        while nothing arrives.
        """
        received = self.received
        if received < _MEGABYTE:
            return ""
        grew = received > self._at_last_line
        self._at_last_line = received
        # Dependencies come on top.
        if received > self._size:
            return f", {received / _MEGABYTE:.0f} MB received"
        share = 100 * received // self._size
        text = f", {received / _MEGABYTE:.0f} of {self._size / _MEGABYTE:.0f} MB, {share} %"
        if not grew:
            return text
        elapsed = time.monotonic() - self._began
        return f"{text}, {rounded(elapsed * (self._size - received) / received)} left"


def required_bytes(requirements: Sequence[str], pip: Sequence[str]) -> int:
    """Return the size of the wheels of some `NAME==VERSION`; 0 if that of one is unknown."""
    if not all(map(_REQUIREMENT.fullmatch, requirements)):
        return 0
    sources = connections.sources(pip)

    def size_of(requirement: str) -> int:
        name, _, version = requirement.partition("==")
        return _wheel_bytes(name, version, sources)

    # The pages of a package's requirements would take seconds one after the other.
    with ThreadPoolExecutor(_PAGES_AT_ONCE) as pool:
        sizes = list(pool.map(size_of, requirements))
    return sum(sizes) if all(sizes) else 0


def in_megabytes(size: int) -> str:
    """Return a size for people: ` (188 MB)`; empty if it is unknown."""
    if not size:
        return ""
    return f" ({max(size / _MEGABYTE, 1):.0f} MB)"


def _wheel_bytes(name: str, version: str, sources: Sources) -> int:
    for place in sources.indexes:
        if connections.why_unreachable(place) is not None:
            continue
        with suppress(UnreadPage, InvalidVersion):
            files = index_pages.read_project(place, canonicalize_name(name), sources)
            size = _size_of_best(files, Version(version))
            if size:
                return size
    return 0


def _size_of_best(files: Sequence[IndexFile], version: Version) -> int:
    """Return the size of the version's wheel that installers prefer here."""
    rank = {tag: number for number, tag in enumerate(sys_tags())}
    best = len(rank)
    size = 0
    for file in files:
        try:
            _, number, _, tags = parse_wheel_filename(file.filename)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        place = min((rank.get(tag, len(rank)) for tag in tags), default=len(rank))
        if number == version and place < best:
            best = place
            size = file.size or 0
    return size


def _socket_inodes(process: int) -> Iterator[int]:
    """Yield the inodes of the sockets of a process and its children; none once it has ended."""
    with suppress(OSError):
        for entry in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                link = str(entry.readlink())
                if link.startswith("socket:["):
                    yield int(link[8:-1])
    with suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _socket_inodes(int(child))


def _received_by_inode() -> dict[int, int]:
    """Return the bytes received by each TCP socket of this machine; empty where that is refused."""
    received: dict[int, int] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        # A kernel without socket diagnosis, or a sandbox that forbids it.
        with suppress(OSError):
            for message in _dump(family):
                received.update(_read_socket(message))
    return received


def _dump(family: int) -> Iterator[bytes]:
    """Yield an answer of the kernel for each TCP socket of a family."""
    query = _QUERY.pack(family, socket.IPPROTO_TCP, 1 << (_INET_DIAG_INFO - 1), 0, _ALL_STATES)
    length = _HEADER.size + len(query)
    header = _HEADER.pack(length, _SOCK_DIAG_BY_FAMILY, _REQUEST_AND_DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as channel:
        channel.settimeout(1.0)
        channel.send(header + query)
        while True:
            data = channel.recv(1 << 16)
            while len(data) >= _HEADER.size:
                length, kind, *_ = _HEADER.unpack_from(data)
                if kind in (_DONE, _ERROR) or length < _HEADER.size:
                    return
                yield data[_HEADER.size : length]
                data = data[(length + 3) & ~3 :]


def _read_socket(message: bytes) -> dict[int, int]:
    """Return a socket's inode → bytes received; empty if the kernel is too old to count them."""
    (inode,) = struct.unpack_from("=I", message, _INODE)
    offset = _ATTRIBUTES
    while offset + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, offset)
        if length < _ATTRIBUTE.size:
            break
        info = message[offset + _ATTRIBUTE.size : offset + length]
        if kind == _INET_DIAG_INFO and len(info) >= _BYTES_RECEIVED + 8:
            (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED)
            return {inode: received}
        offset += (length + 3) & ~3
    return {}
