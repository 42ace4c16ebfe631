"""What all commands share: how values are read, and where output goes."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from flacheck import toolchains
from flacheck.api import arguments
from flacheck.cli import common
from flacheck.errors import Exit, UsageError


def test_values_are_repeated_or_separated_by_commas() -> None:
    """As the user likes; empty ones are none."""
    assert arguments.split(["a, b", "c", "", " ,"]) == ("a", "b", "c")
    assert arguments.split([]) == ()
    assert arguments.numbers("--num-warps", ["4,8", "16"]) == (4, 8, 16)
    with pytest.raises(UsageError, match="--num-warps takes whole numbers"):
        arguments.numbers("--num-warps", ["4.5"])


def test_every_flag_of_a_selection_is_repeated_or_separated_by_commas() -> None:
    """Both ways select the same, and name the same compilers."""
    values = (
        ["a", "b"],
        ["sm80", "sm90"],
        ["bf16", "fp16"],
        ["4", "8"],
        ["2", "3"],
        ["3.5.1", "3.6.0"],
        ["2.9", "2.10"],
        ["x", "y"],
    )
    flags = ("kernel", "target", "dtype", "num_warps", "num_stages", "triton", "torch", "op")
    repeated = arguments.selection_of(**dict(zip(flags, values, strict=True)))
    joined = arguments.selection_of(
        **{flag: ",".join(each) for flag, each in zip(flags, values, strict=True)}
    )
    assert toolchains.resolve(joined.toolchains) == toolchains.resolve(repeated.toolchains)
    assert replace(joined, toolchains=()) == replace(repeated, toolchains=())


def test_packages_are_repeated_or_separated_by_commas(here: Path) -> None:
    """Each once; a bound belongs to the package before it, and a folder may have a comma."""
    (here / "a,b").mkdir()
    names = ["one==1.0,two==2.0", "./a,b", "one==1.0", "three>=1,<2"]
    assert arguments.packages_of(names) == ("one==1.0", "two==2.0", "./a,b", "three>=1,<2")
    assert arguments.packages_of([""]) == ()


@pytest.mark.parametrize(
    ("text", "seconds"), [("auto", None), ("30", 30.0), ("0.5", 0.5), ("inf", math.inf)]
)
def test_a_timeout_is_auto_or_seconds(text: str, seconds: float | None) -> None:
    """None for one that is learnt."""
    assert arguments.seconds(text) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "nan", "soon", ""])
def test_a_timeout_that_is_none_is_an_error(text: str) -> None:
    """With what is expected."""
    with pytest.raises(UsageError, match="expected auto or a duration"):
        arguments.seconds(text)


def test_a_selection_takes_known_dtypes_only() -> None:
    """The kernels and targets are looked up where they are known."""
    chosen = arguments.selection_of(
        kernel=["a,b"], target=["sm90"], dtype=["bf16"], num_warps=["4"], toolchain=["3.2.0"]
    )
    assert (chosen.kernels, chosen.targets, chosen.dtypes) == (("a", "b"), ("sm90",), ("bf16",))
    assert (chosen.num_warps, chosen.num_stages, chosen.toolchains) == ((4,), (), ("3.2.0",))
    with pytest.raises(UsageError, match="unknown dtype 'fp12'"):
        arguments.selection_of(dtype=["fp12"])


def test_a_terminated_command_ends_like_an_interrupted_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """So its folders go, and it says how to go on; the handler that was there comes back."""
    before = signal.getsignal(signal.SIGTERM)
    left = []

    @common.command(examples=[], exits={})
    def terminated() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            left.append("in order")

    with pytest.raises(typer.Exit) as ended:
        terminated()
    assert (ended.value.exit_code, left) == (Exit.INTERRUPTED, ["in order"])
    assert "interrupted. To begin again: " in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_command_runs_in_any_thread() -> None:
    """Only the main one hears of signals."""
    codes = []

    @common.command(examples=[], exits={})
    def quiet() -> Exit:
        return Exit.EMPTY

    def run() -> None:
        with pytest.raises(typer.Exit) as ended:
            quiet()
        codes.append(ended.value.exit_code)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert codes == [Exit.EMPTY]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """What fails half-way leaves the old file, and nothing beside it."""

    def failing() -> Iterator[str]:
        yield "half"
        raise OSError(28, "No space left on device")

    file = tmp_path / "out.txt"
    common.write(["old"], file)
    with pytest.raises(
        UsageError, match=r"out\.txt: cannot be written \(No space left on device\)"
    ):
        common.write(failing(), file)
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]
    assert file.read_text() == "old"


def test_a_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    """Root could make a file of /dev/null."""
    device = tmp_path / "null"
    device.symlink_to("/dev/null")
    common.write(["lost"], device)
    assert device.is_symlink()
    assert device.is_char_device()
    with pytest.raises(UsageError, match="cannot be written"):
        common.write(["x"], tmp_path)


def test_without_a_file_output_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """And talk to stderr."""
    common.write(["a", "b"], None)
    common.say("talk", "more")
    out, err = capsys.readouterr()
    assert (out, err.splitlines()) == ("ab", ["flacheck: talk", "flacheck: more"])
