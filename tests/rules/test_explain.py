"""Logs of any size and form: findings, line numbers and bounded memory."""

from __future__ import annotations

import gzip
import io
import os
import shlex
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import flacheck
from flacheck import UsageError, cli
from flacheck.rules import excerpts, explanation, log_files
from tests.captured import needs_torch, written
from tests.rule_logs import evidence, log_of
from tests.warm import WarmCommand

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

STEP = b"step %8d | loss 2.%06d | grad norm 0.1234 | lr 3.0e-4 | tokens/s 123456\n"
NOISE = b"[W] error: could not fetch https://example.org: timed out\n"
SHARED = (
    b"triton.runtime.errors.OutOfResources: out of resource: shared memory, "
    b"Required: 131072, Hardware limit: 101376. Reducing block sizes may help.\n"
)
SELECT = (
    b"LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.shfl.sync.bfly.i32\nAborted (core dumped)\n"
)


def _steps(count: int) -> bytes:
    return b"".join(STEP % (number, number * 7919 % 1_000_000) for number in range(count))


def _codes(log: str | Path | io.BytesIO) -> list[str]:
    return [finding.code for finding in flacheck.explain(log).findings]


def _long(megabytes: int) -> Iterator[bytes]:
    """Yield a training log with a failure near each end, and harmless errors."""
    block = _steps(12_000)
    yield block[: len(block) // 2].rpartition(b"\n")[0] + b"\n" + SHARED
    for _ in range(megabytes * (1 << 20) // len(block)):
        yield block + NOISE
    yield SELECT + block


@pytest.mark.slow
def test_a_long_log_is_read_in_bounded_memory_and_both_its_failures_are_found() -> None:
    """The more specific failure is first, with line numbers of the whole log."""
    lines = sum(chunk.count(b"\n") for chunk in _long(64))
    tracemalloc.start()
    parts = excerpts.take(_long(64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 << 20
    finding = explanation.of_excerpts(parts)
    assert [each.code for each in finding] == ["FC501", "FC307"]
    assert [each.line for each in finding] == [6_001, lines - 12_001]


def test_a_line_that_differs_from_earlier_ones_in_numbers_only_is_passed_over() -> None:
    """Only a line that differs in more than numbers is kept."""
    text = b"arange's range must be a power of 2\n"
    parts = excerpts.take([_steps(60_000), b"power of 3\n", text, _steps(60_000)])
    assert [text.decode() in part.text for part in parts] == [False, True, False]
    assert parts[1].text.count(text.decode()) == 1


@pytest.mark.slow
def test_a_failure_at_the_edge_of_a_block_keeps_its_traceback() -> None:
    """A traceback across two blocks is read whole."""
    head = _steps(30_000)[: (1 << 20) - 40].rpartition(b"\n")[0] + b"\n"
    trace = b'  File "autotuner.py", line 1, in run\n    x\nIndexError: list index out of range\n'
    log = head + b"Traceback (most recent call last):\n" + trace + _steps(60_000)
    assert _codes(io.BytesIO(log)) == ["FC601"]


@pytest.mark.parametrize("suffix", ["log", "gz", "zst", "zip", "folder", "stdin"])
def test_logs_are_read_as_people_have_them(suffix: str, tmp_path: Path) -> None:
    """Plain, compressed, archived and streamed logs are read."""
    log = _steps(20) + NOISE + SELECT
    path = tmp_path / f"train.{suffix}"
    if suffix == "gz":
        path.write_bytes(gzip.compress(log))
    elif suffix == "zst":
        path.write_bytes(zstd.compress(log))
    elif suffix == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("1_build.txt", _steps(5))
            archive.writestr("test/2_run.txt", log)
    elif suffix == "folder":
        path.mkdir()
        (path / "a.log").write_bytes(_steps(5))
        (path / "b.log.gz").write_bytes(gzip.compress(log))
    else:
        path.write_bytes(log)
    if suffix == "stdin":
        assert _codes(io.BytesIO(log)) == ["FC307"]
        return
    (finding,) = flacheck.explain(path).findings
    assert (finding.code, finding.line) == ("FC307", 22)
    assert finding.file.endswith({"zip": "2_run.txt", "folder": "b.log.gz"}.get(suffix, ""))


@pytest.mark.parametrize(
    ("before", "after"),
    [(b"ptxas", b"ptxaz"), (b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")],
    ids=["checksum", "encrypted"],
)
def test_a_member_that_cannot_be_read_is_an_error_with_its_name(
    before: bytes, after: bytes, tmp_path: Path
) -> None:
    """A wrong checksum or an encrypted member is an error."""
    path = tmp_path / "log.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "ptxas fatal : x")
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after))
    with pytest.raises(UsageError, match=r"log\.zip.*: the archive is damaged"):
        flacheck.explain(path)


@pytest.mark.parametrize("suffix", ["gz", "zst", "zip"])
def test_a_damaged_archive_is_an_error_with_its_name(suffix: str, tmp_path: Path) -> None:
    """A truncated archive is an error."""
    path = tmp_path / f"cut.{suffix}"
    log = bytes(range(256)) * 4_000
    if suffix == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a", log)
        whole = path.read_bytes()
    elif suffix == "gz":
        whole = gzip.compress(log)
    else:
        whole = zstd.compress(log)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=f"cut.{suffix}: the archive is damaged"):
        flacheck.explain(path)


def test_a_missing_log_is_an_error_that_names_it(tmp_path: Path) -> None:
    """A missing log is an error that names it."""
    with pytest.raises(UsageError, match=r"none\.log: cannot be read"):
        flacheck.explain(tmp_path / "none.log")


def test_a_device_that_never_ends_is_read_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless device is read up to a limit."""
    monkeypatch.setattr(log_files, "MOST", 8 << 20)
    with Path("/dev/zero").open("rb") as endless:
        assert flacheck.explain(endless).findings == ()


PREFIXES = (
    "2025-04-24T06:46:09.0392577Z ",
    "2026-01-17T18:48:10.418557961+01:00 stderr F ",
    "[rank3]: ",
    "(EngineCore_DP0 pid=1117) ERROR 02-05 00:58:24 [core.py:968] ",
    "[rank6]:E1211 16:33:14.602000 1463070 site-packages/torch/x.py:810] [0/0] ",
    "E       ",
    "> > ",
    "#12 89.49   ",
    "  0%|          | 0/30 [00:00<?, ?it/s]",
    "\x1b[31m",
    "\x1b[36m(pid=12)\x1b[0m ",
    "build (3.11)\tRun tests\t2026-11-02T10:11:12.1234567Z ",
    "[2025-05-06 06:19:33 TP0] ",
    "2025-01-01 10:10:10,123 - trainer - ERROR - ",
    "2026-01-01 10:10:10.123 | ERROR    | trainer:main:12 - ",
    "ERROR:trainer:",
    "2024-10-28T08:34:35.936624Z  WARN text_generation_launcher: ",
    "Nov 24 12:00:00 node7 python[123]: ",
    "[12345.678901] ",
    "[1,3]<stderr>:",
    "3: ",
    "web-1  | ",
)


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_of_lines_hide_no_failure(prefix: str) -> None:
    """Prefixes of launchers, loggers and CI do not hide a failure."""
    log = f"{prefix}fine\n{prefix}Segmentation fault (core dumped)\n"
    log += f"{prefix}Unsupported conversion from bf16 to f16\n"
    assert _codes(log) == ["FC301"]


def test_lines_that_a_terminal_wrapped_are_joined() -> None:
    """Wrapped lines are joined if several fill the width."""
    text = "loading the weights of the model from the folder of checkpoints on the disk " * 2
    message = "LLVM ERROR: Cannot select: intrinsic %llvm.nvvm.shfl.sync.bfly.i32"
    lines = [text, message, text + "x", *["done"] * 6]
    pieces = [line[at : at + 50] for line in lines for at in range(0, len(line), 50)]
    (finding,) = flacheck.explain("\n".join(pieces)).findings
    assert (finding.code, finding.facts["what"][-14:]) == ("FC307", "hfl.sync.bfly.i32"[-14:])


def test_the_cause_wins_over_what_is_loud_or_early() -> None:
    """The cause is first; harmless errors and wrappers are ignored."""
    loud = NOISE.decode() * 30 + "ok\n" * 2_000 + "LLVM ERROR: Cannot select: x\n"
    loud += "Fatal Python error: Aborted\n"
    assert _codes(loud) == ["FC307"]
    text = "Fatal Python error: Aborted\nRuntimeError: Triton Error [CUDA]: misaligned address\n"
    assert _codes(text) == ["FC917"]
    two = "RuntimeError: Triton Error [CUDA]: misaligned address\n" + "ok\n" * 500
    assert _codes(two + SHARED.decode()) == ["FC501", "FC917"]


def test_a_choice_that_an_autotuner_leaves_out_is_harmless() -> None:
    """A failure in the same log is reported in its place."""
    log = f"E1 No valid triton configs. {SHARED.decode()}E1 Ignoring this choice.\nAUTOTUNE bmm\n"
    assert _codes(log) == ["FC605"]
    assert _codes(log + SELECT.decode()) == ["FC307"]


def test_a_warning_about_the_inputs_of_a_kernel_is_no_failure() -> None:
    """torch logs the exception of its analysis and goes on without it."""
    log = """Encountered an exception in identify_mutated_tensors, assuming every input is mutated
Traceback (most recent call last):
  File "triton_kernel_wrap.py", line 1, in f
AttributeError: 'X' object has no attribute 'y'
step 1
"""
    assert _codes(log) == []
    assert _codes(log + SELECT.decode()) == ["FC307"]


PIN = "ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler'\n"


@pytest.mark.parametrize(
    ("versions", "cause", "confidence"),
    [
        ("torch==2.8.0\ntriton==3.5.0\n", "newer than what torch 2.8.0 requires", "certain"),
        ("torch 2.4.0a0\nTriton: 2.3.1\n", "older than what torch 2.4.0 requires", "certain"),
        ("torch 2.3.1\ntriton 3.2.0\n", "newer than what torch 2.3.1 requires", "certain"),
        ("", "Either Triton is newer", "possible"),
    ],
)
def test_the_versions_in_a_log_decide_between_opposite_causes(
    versions: str, cause: str, confidence: str
) -> None:
    """The versions decide the cause; without them both are named."""
    (finding,) = flacheck.explain(versions + PIN).findings
    assert (finding.code, finding.confidence) == ("FC913", confidence)
    assert cause in finding.cause


def test_a_log_that_powershell_wrote_in_utf_16_is_read(tmp_path: Path) -> None:
    """A UTF-16 log is read."""
    file = tmp_path / "build.log"
    file.write_bytes(SELECT.decode().encode("utf-16"))
    assert _codes(file) == ["FC307"]


def test_bars_that_overwrite_each_other_are_no_part_of_a_message() -> None:
    """Progress bars are removed, and line numbers stay."""
    bars = "\r 10%|█  | 1/10 [00:01<00:09,  1.0it/s]\r 20%|██ | 2/10 [00:02<00:08,  1.0it/s]"
    message = "torch.OutOfMemoryError: CUDA out of memory."
    (finding,) = flacheck.explain(f"start\n{bars}{message}\n").findings
    assert (finding.code, finding.line, finding.excerpt) == ("FC926", 2, message)


def test_a_name_is_dated_by_the_releases_that_have_it() -> None:
    """The cause names the releases that have the attribute."""
    message = "AttributeError: module 'triton.language' has no attribute 'gather'\n"
    (finding,) = flacheck.explain(f"triton==3.1.0\n{message}").findings
    assert (
        finding.cause == "`triton.language.gather` is in Triton 3.3.0 to 3.9.0; 3.1.0 is too old."
    )
    assert finding.remedy == "Use triton>=3.3.0."


LOG = """\
flash-linear-attention 0.2.2
triton==3.3.1
| NVIDIA-SMI 535.129.03    Driver Version: 535.129.03    CUDA Version: 12.2 |
NVIDIA Tesla V100-SXM2-32GB
  File "/x/site-packages/fla/ops/retention/chunk.py", line 3, in f
    chunk_fwd_kernel_o[grid](
Unsupported conversion from bf16 to f16
module attributes {"ttg.num-warps" = 8 : i32, ttg.target = "cuda:70"} {
"""


def test_facts_of_a_log_end_in_commands_to_paste() -> None:
    """The commands contain the log's package, kernel, release and GPU."""
    (finding,) = flacheck.explain(LOG).findings
    assert finding.log == {
        "triton": "3.3.1",
        "cuda": "12.2",
        "driver": "535.129.03",
        "gpu": "NVIDIA Tesla V100-SXM2-32GB",
        "target": "sm70",
        "num_warps": 8,
        "kernel": "chunk_fwd_kernel_o",
        "package": "flash-linear-attention==0.2.2",
    }
    assert finding.next[0] == (
        "flacheck scan --package flash-linear-attention==0.2.2 --kernel chunk_fwd_kernel_o"
        " --triton 3.3.1 --target sm70"
    )


PROGRAM_LOG = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "examples/train.py", line 3, in <module>
triton==3.3.1
NVIDIA Tesla V100-SXM2-32GB
Unsupported conversion from bf16 to f16
"""


def test_a_program_without_a_known_package_is_recorded_and_its_launches_compiled() -> None:
    """For a user's program the commands capture and scan its launches."""
    (finding,) = flacheck.explain(PROGRAM_LOG).findings
    assert finding.next == (
        "flacheck capture --device sm70 -- python examples/train.py",
        "flacheck scan launches.jsonl --triton 3.3.1 --target sm70",
    )
    assert finding.lacks == ()


def test_no_compile_is_proposed_for_a_log_that_names_neither_package_nor_program() -> None:
    """Without a package or program the explanation names what the log lacks."""
    explained = flacheck.explain("Unsupported conversion from bf16 to f16\ntriton==3.3.1\n")
    (finding,) = explained.findings
    assert finding.next == ()
    assert finding.lacks == (
        "the package and its version (`pip list`), or the traceback of the program",
        "the GPU (`nvidia-smi`, `rocminfo`)",
    )
    assert list(finding.lacks) == explained.to_json()["findings"][0]["facts"]["lacks"]


def test_dtypes_of_a_package_are_followed_where_an_operation_refuses_them() -> None:
    """A dtype error proposes `flacheck dtypes` for the package that the log names."""
    frame = 'fla-core==0.4.2\n  File "/x/site-packages/fla/layers/gla.py", line 3, in forward\n'
    refusal = "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Half\n"
    (finding,) = flacheck.explain(frame + refusal).findings
    assert finding.next == ("flacheck dtypes --package fla-core==0.4.2",)
    (finding,) = flacheck.explain(refusal).findings
    assert (finding.next, finding.lacks) == ((), ("the package and its version (`pip list`)",))
    (finding,) = flacheck.explain("RuntimeError: CUDA error: out of memory\n").findings
    assert finding.next == ("flacheck explain FC926",)


def test_an_unknown_failure_names_the_nearest_codes_and_a_link_to_report_it() -> None:
    """The link to report it contains the decisive lines."""
    (finding,) = flacheck.explain(
        "triton==3.5.0\nFooError: the cache of processes is stale\n"
    ).findings
    assert (finding.code, finding.others[0]) == ("FC000", "FC915")
    assert finding.links[0].startswith(
        "https://github.com/triton-lang/triton/issues/new?title=FooError"
    )
    (elsewhere,) = flacheck.explain("FooError: the index of the shop is stale\n").findings
    assert (elsewhere.code, elsewhere.links) == ("FC000", ())


def _printed_commands() -> list[str]:
    commands: set[str] = set()
    for _, name in evidence("golden"):
        for finding in flacheck.explain(log_of(name)).findings:
            assert finding.next or finding.lacks or finding.code == "FC000", finding.code
            commands.update(finding.next)
    for log in (LOG, PROGRAM_LOG):
        commands.update(flacheck.explain(log).findings[0].next)
    return sorted(commands)


def test_every_printed_command_is_complete() -> None:
    """The command line parses every printed command."""
    group: Any = typer.main.get_command(cli.app)
    for line in _printed_commands():
        program, name, *arguments = shlex.split(line)
        command = group.commands[name]
        assert program == "flacheck"
        if hasattr(command, "commands"):
            command, arguments = command.commands[arguments[0]], arguments[1:]
        command.make_context(name, list(arguments))


@needs_torch
def test_the_commands_for_a_program_record_its_launches_and_plan_their_compiles(
    tmp_path: Path,
) -> None:
    """The printed commands run one after the other."""
    (tmp_path / "examples").mkdir()
    program = 'launch(torch.empty(64, device="cuda"))\n'
    written(tmp_path, program).rename(tmp_path / "examples" / "train.py")
    record, scan = flacheck.explain(PROGRAM_LOG).findings[0].next
    for command in (record, f"{scan} --dry-run"):
        _, *arguments = shlex.split(command)
        outcome = WarmCommand().run(arguments, tmp_path, os.environ)
        assert outcome.returncode == 0, outcome.stderr
    assert (tmp_path / "launches.jsonl").exists()
