"""A stand-in for uv: it fills a folder with a small distribution, or fails by FAKE_INSTALLER."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import sys
import time
from pathlib import Path

FAILURES = {
    "no-space": "error: Failed to copy\n  cause: No space left on device (os error 28)",
    "no-network": "error: Failed to fetch\n  cause: client error (Connect)\n  cause: dns error",
    "no-permission": "error: failed to create directory `t`: Read-only file system (os error 30)",
    "not-found": "error: No solution found\n  cause: Because there is no version of triton==3.2.0",
    "odd": "error: the moon is full",
}


def put_on_path(folder: Path) -> str:
    """Write the program `uv` into a folder and return the folder for PATH."""
    program = folder / "uv"
    program.write_text(f"#!{sys.executable}\n" + Path(__file__).read_text())
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(folder)


def distribution(folder: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> None:
    """A distribution as an installer leaves it: a module, a library, a script and a true RECORD."""
    files = {
        f"{name}/__init__.py": f"__version__ = '{version}'\n",
        f"{name}/_C/libtriton.so": f"elf {version}",
        # A script begins with the installer's own Python.
        f"bin/{name}": f"#!{folder}/python\n",
    }
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {r}\n" for r in requires)
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
    rows = []
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        hash_text = (
            base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        )
        rows.append(f"{path},sha256={hash_text},{len(text)}")
    (folder / info / "RECORD").write_text("\n".join([*rows, f"{info}/RECORD,,"]) + "\n")


def main() -> None:
    mode = os.environ.get("FAKE_INSTALLER", "")
    if mode in FAILURES:
        print(FAILURES[mode], file=sys.stderr)
        raise SystemExit(1)
    if "--dry-run" in sys.argv:
        return
    target = Path(sys.argv[sys.argv.index("--target") + 1])
    for requirement in (a for a in sys.argv if "==" in a):
        name, _, version = requirement.partition("==")
        requires = ("fake-core==1.0",) if name == "fake-package" else ()
        distribution(target, name.replace("-", "_"), version, requires)
        if requires:
            distribution(target, "fake_core", "1.0")
    with open(os.environ["FAKE_INSTALLER_LOG"], "a") as log:
        log.write(f"{os.getpid()}\n")
    if mode == "held":
        # Until the test lets go, or has died.
        end = time.monotonic() + 60
        while not Path(os.environ["FAKE_INSTALLER_RELEASE"]).exists() and time.monotonic() < end:
            time.sleep(0.02)
    if mode == "stuck":
        time.sleep(30)


if __name__ == "__main__":
    main()
