"""Run beside a reducer, in its interpreter: hands each candidate to the benchmark and tells what it
said.

usage: asker.py ask SOCKET FILE         exit 0 when FILE's text still shows the failure
       asker.py minimize SOCKET FILE    let pysource-minimize reduce FILE's text
"""

from __future__ import annotations

import socket
import sys


def ask(place: str, text: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asker:
        asker.connect(place)
        asker.sendall(text.encode("utf-8", "replace"))
        asker.shutdown(socket.SHUT_WR)
        return asker.recv(1) == b"y"


def main(what: str, place: str, file: str) -> int:
    with open(file, encoding="utf-8", errors="replace") as opened:
        text = opened.read()
    if what == "ask":
        return 0 if ask(place, text) else 1
    from pysource_minimize import minimize

    minimize(text, lambda candidate: ask(place, candidate))
    return 0


sys.exit(main(*sys.argv[1:]))
