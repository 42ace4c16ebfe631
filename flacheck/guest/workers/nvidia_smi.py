"""The program `nvidia-smi` of an imitated card: packages run it to look for a card."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from ..engine.messages import CardRow

# The driver of the CUDA version that torch reports if it names none.
_DRIVER, _CUDA = "570.124.06", "12.8"
_UUID = "GPU-00000000-0000-0000-0000-000000000000"
_SCRIPT = """#!/bin/sh
value() {{
    case "$1" in
        name|gpu_name) echo "{name}" ;;
        count) echo 1 ;;
        index) echo 0 ;;
        uuid|gpu_uuid) echo "{uuid}" ;;
        compute_cap) echo "{capability}" ;;
        driver_version) echo "{driver}" ;;
        memory.total|memory.free) echo "{memory}$2" ;;
        memory.used) echo "0$2" ;;
        *) echo "[N/A]" ;;
    esac
}}
fields= format=
while [ $# -gt 0 ]; do
    case "$1" in
        -L|--list-gpus) echo "GPU 0: {name} (UUID: {uuid})"; exit 0 ;;
        --query-gpu=*) fields="${{1#*=}}" ;;
        --query-gpu) shift; fields="$1" ;;
        --format=*) format="${{1#*=}}" ;;
        --format) shift; format="$1" ;;
    esac
    shift
done
if [ -z "$fields" ]; then
    echo "NVIDIA-SMI {driver}    Driver Version: {driver}    CUDA Version: {cuda}"
    echo "|   0  {name}    0MiB / {memory}MiB |"
    exit 0
fi
unit=" MiB"
case "$format" in *nounits*) unit= ;; esac
case "$format" in *noheader*) ;; *) echo "$fields" | sed 's/,/, /g' ;; esac
line= rest="$fields,"
while [ -n "$rest" ]; do
    one=$(echo "${{rest%%,*}}" | tr -d ' ')
    rest="${{rest#*,}}"
    said=$(value "$one" "$unit")
    if [ -z "$line" ]; then line="$said"; else line="$line, $said"; fi
done
echo "$line"
"""
# The folder of each card's program, by the card's name.
_folders: dict[str, str] = {}


def provide(card: CardRow) -> None:
    """Put an `nvidia-smi` that describes this card first on the PATH of this process."""
    gpu = str(card["gpu"])
    path = os.environ.get("PATH", os.defpath)
    paths = path.split(os.pathsep)
    own_folders = _folders.values()
    others = [path for path in paths if path not in own_folders]
    if gpu not in _folders:
        folder = tempfile.mkdtemp(prefix="flacheck-card-")
        _folders[gpu] = folder
        _write(os.path.join(folder, "nvidia-smi"), card)
        # Only the process that made the folder removes it: its forks end earlier.
        atexit.register(_remove, folder, os.getpid())
    paths = [_folders[gpu], *others]
    os.environ["PATH"] = os.pathsep.join(paths)


def _write(file: str, card: CardRow) -> None:
    text = _SCRIPT.format(
        name=card["gpu"],
        uuid=_UUID,
        capability=".".join(map(str, card["capability"])),
        driver=_DRIVER,
        cuda=_CUDA,
        memory=card["memory_gb"] * 1024,
    )
    script = Path(file)
    script.write_text(text, encoding="utf-8")
    script.chmod(0o755)


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
