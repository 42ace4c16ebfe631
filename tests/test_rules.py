"""Rules against logs that really came from a compiler, and the properties of signatures."""

from __future__ import annotations

import json
import re
import statistics
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.model import MESSAGE_LIMIT, Attempt, Finding, Outcome, Resources
from flacheck.rules import RULES, classify, decisive, normalise, over_limits, read, signature, slow
from flacheck.rules.signature import bare_name
from flacheck.tables.targets import TARGETS

LOGS = Path(__file__).parent / "logs"


def _logs(kind: str) -> list[str]:
    return sorted(str(path.relative_to(LOGS)) for path in LOGS.glob(f"*/{kind}-*.log"))


def _log(name: str) -> str:
    return (LOGS / name).read_text()


def _json(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((LOGS / name).read_text())
    return loaded


def _signature(name: str, stage: str = "llir") -> str:
    return signature(read(_log(name))[0], stage)


def test_every_rule_has_a_golden_log_and_a_near_miss() -> None:
    """A code without evidence from a real run is no rule."""
    for code in RULES:
        names = [path.name for path in (LOGS / code).iterdir()]
        assert any(name.startswith("golden-") for name in names), code
        assert any(name.startswith("near-") for name in names), code


@pytest.mark.parametrize("name", _logs("golden"))
def test_a_golden_log_reads_as_its_code_first(name: str) -> None:
    """The decisive finding of a golden log has the code of its folder, a place in the log and a
    message."""
    first = read(_log(name))[0]
    assert first.code == name.partition("/")[0]
    assert first.line is not None
    assert first.excerpt in _log(name) or first.excerpt.startswith("AssertionError: ")
    assert first.message


@pytest.mark.parametrize("name", _logs("near"))
def test_a_near_miss_does_not_read_as_the_code_it_resembles(name: str) -> None:
    """No finding of a near miss has the code of its folder."""
    assert name.partition("/")[0] not in {finding.code for finding in read(_log(name))}


def test_a_text_without_a_failure_reads_as_nothing() -> None:
    """A successful compile with a warning gives no finding."""
    assert read(_log("FC000/near-warning-3.9.0.log")) == []
    assert read("") == []
    assert decisive("all fine\n") == ""


def test_every_rule_tells_a_user_what_to_do() -> None:
    """Codes are well formed and every text is there."""
    for code, rule in RULES.items():
        assert re.fullmatch(r"FC\d{3}", code)
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
        assert all((rule.title, rule.summary, rule.cause, rule.remedy))
        assert rule.effect in ("fails", "unknown", "compiles", "advisory")
        assert all(link.startswith("https://") for link in rule.links)
    assert len({rule.name for rule in RULES.values()}) == len(RULES)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("FC101/golden-triton-ops-3.9.0.log", {"api": "triton.ops"}),
        ("FC301/golden-bf16-3.3.1.log", {"source": "bf16", "wanted": "f16"}),
        ("FC301/golden-f16-3.3.0.log", {"source": "f16", "wanted": "f16"}),
        ("FC401/golden-bf16-add-3.2.0.log", {"feature": ".bf16", "requires": "sm_80"}),
        ("FC501/golden-sm90-3.2.0.log", {"required": 262_144, "limit": 232_448}),
        ("FC501/golden-ptxas-13.0.log", {"required": 65_536, "limit": 49_152}),
        ("FC502/golden-num-warps-64-3.5.0.log", {"required": 2_048, "limit": 1_024}),
        ("FC503/golden-maxnreg-3.5.0.log", {"required": 154, "limit": 40}),
        ("FC504/golden-three-accumulators-3.6.0.log", {"required": 832, "limit": 512}),
        ("FC603/golden-head-first-3.9.0.log", {"names": ["head_first", "NV"]}),
        ("FC701/golden-fla-0.1.2-rwkv7.log", {"contract": "q.dtype == k.dtype == v.dtype"}),
        ("FC903/golden-uv.log", {"requirement": "triton==3.1.0"}),
    ],
)
def test_facts_are_read_from_the_message(name: str, facts: dict[str, Any]) -> None:
    """Quantities are numbers, names are names."""
    assert read(_log(name))[0].facts == facts


def test_one_assertion_is_one_signature_however_the_process_died() -> None:
    """3.2.0 aborts on this assertion; 3.3.0 survives it as `PassManager::run failed`."""
    died, survived = (
        "FC000/golden-scan-assertion-3.2.0.log",
        "FC000/golden-scan-assertion-3.3.0.log",
    )
    assert "PassManager::run failed" not in _log(died)
    assert "PassManager::run failed" in _log(survived)
    assert _signature(died) == _signature(survived)
    assert _signature(died).startswith("FC000:llir:AddPartialReduce:")


def test_signatures_of_one_failure_agree_over_releases() -> None:
    """The same message on another release is the same failure."""
    assert _signature("FC302/golden-st-matrix-3.3.0.log") == _signature(
        "FC302/golden-st-matrix-3.3.1.log"
    )
    assert _signature("FC303/golden-tf32-3.0.0.log") == _signature("FC303/golden-tf32-3.2.0.log")
    assert _signature("FC401/golden-bf16-add-3.2.0.log") == _signature(
        "FC401/golden-bf16-dot-3.1.0.log"
    )
    assert _signature("FC501/golden-sm90-3.2.0.log") == _signature("FC501/golden-sm86-3.9.0.log")


def test_signatures_of_different_failures_differ() -> None:
    """Two assertions about layouts, two about reductions, two types: six failures."""
    names = [
        "FC302/golden-reshape-outs-3.2.0.log",
        "FC302/golden-st-matrix-3.3.0.log",
        "FC000/golden-reduce-assertion-3.2.0.log",
        "FC302/near-reduce-assertion-3.3.0.log",
        "FC301/golden-bf16-3.3.1.log",
        "FC301/golden-f16-3.3.0.log",
    ]
    assert len({_signature(name) for name in names}) == len(names)


def test_a_signature_has_the_form_of_the_contract() -> None:
    """Code, stage, bare function name, eight hex digits; a dash for what is not known."""
    assert re.fullmatch(
        r"FC302:ttgir:reshapeOuts:[0-9a-f]{8}",
        _signature("FC302/golden-reshape-outs-3.2.0.log", "ttgir"),
    )
    assert re.fullmatch(
        r"FC000:-:-:[0-9a-f]{8}", signature(Finding("FC000", "", "error: no"), None)
    )


def test_the_cause_stands_before_its_wrapper() -> None:
    """The last line of a recovered crash is a wrapper and is not shown."""
    lines = decisive(_log("FC301/golden-f16-3.3.0.log")).splitlines()
    assert lines[0] == "Unsupported conversion from f16 to f16"
    assert not any("PassManager" in line for line in lines)


def test_a_wrapper_alone_is_better_than_nothing() -> None:
    """Where only the wrapper was kept it is the decisive line."""
    assert read("Traceback (most recent call last):\nRuntimeError: PassManager::run failed\n")[
        0
    ].message == ("RuntimeError: PassManager::run failed")


def test_a_message_is_cut_at_the_limit() -> None:
    """Many different complaints stay within the contract's 2,000 characters, whole lines only."""
    log = "".join(
        f"LLVM ERROR: complaint {chr(97 + i // 26)}{chr(97 + i % 26)}\n" for i in range(300)
    )
    assert len(decisive(log)) <= MESSAGE_LIMIT
    assert set(decisive(log).splitlines()) <= set(log.splitlines())
    assert len(decisive("LLVM ERROR: " + "x" * 5_000)) == MESSAGE_LIMIT


def test_prefixes_of_launchers_do_not_hide_a_failure() -> None:
    """A rank in front of every line changes neither code nor line number."""
    plain = _log("FC701/golden-fla-0.1.2-rwkv7.log")
    ranked = "".join(f"[rank0]: {line}\n" for line in plain.splitlines())
    assert read(ranked) == read(plain)


def test_a_time_out_is_fc901_whatever_the_log_says() -> None:
    """What a killed compiler had printed so far is no cause."""
    attempt = Attempt(
        Outcome.TIMED_OUT, stage="cubin", log=_log("FC401/golden-bf16-add-3.2.0.log"), seconds=300.2
    )
    (finding,) = classify(attempt)
    assert (finding.code, finding.facts) == ("FC901", {"seconds": 300.2})
    assert RULES["FC901"].effect == "unknown"


@pytest.mark.parametrize("name", [name for name in _logs("golden") if name.startswith("FC902")])
def test_memory_is_fc902_even_when_it_comes_as_an_abort(name: str) -> None:
    """`bad_alloc` under a limit is unknown, not a failure of the kernel."""
    attempt = Attempt(Outcome.DIED, stage="llir", signal="SIGABRT", log=_log(name))
    assert classify(attempt)[0].code == "FC902"
    assert RULES["FC902"].effect == "unknown"


def test_a_kill_without_a_word_is_memory() -> None:
    """The kernel's out-of-memory killer leaves no message."""
    assert classify(Attempt(Outcome.DIED, stage="cubin", signal="SIGKILL"))[0].code == "FC902"
    assert classify(Attempt(Outcome.OUT_OF_MEMORY, stage="cubin", peak_mb=4_096.0))[0].facts == {
        "peak_mb": 4_096.0
    }


def test_a_killed_process_with_a_named_failure_keeps_its_name() -> None:
    """The message outranks the signal."""
    log = _log("FC302/golden-reshape-outs-3.2.0.log")
    assert classify(Attempt(Outcome.DIED, signal="SIGKILL", log=log))[0].code == "FC302"


def test_a_signal_without_a_message_says_where_it_struck() -> None:
    """Nothing on stderr still gives a finding."""
    (finding,) = classify(Attempt(Outcome.DIED, stage="ttgir", signal="SIGSEGV"))
    assert (finding.code, finding.message) == ("FC000", "SIGSEGV in stage ttgir, nothing on stderr")


def test_the_last_lines_stand_in_for_an_unknown_message() -> None:
    """A log without any known form of complaint is quoted from its end."""
    (finding,) = classify(Attempt(Outcome.RAISED, stage="ttir", exit_code=3, log="one\ntwo\n"))
    assert finding.message == "exit status 3 in stage ttir, the last lines were:\none\ntwo"
    (silent,) = classify(Attempt(Outcome.NOT_STARTED))
    assert silent.message == "not_started in stage unknown, nothing on stderr"


def test_a_finished_attempt_has_no_findings() -> None:
    """Warnings of a finished compile are no failure."""
    assert classify(Attempt(Outcome.FINISHED, log="error: looked bad but compiled")) == []


def test_shifted_keys_are_named() -> None:
    """The real autotuner of 3.1.0 put V where K was meant; 3.2.0 did not."""
    (finding,) = classify(Attempt.from_json(_json("FC602/golden-key-behind-tuned-3.1.0.json")))
    assert finding.code == "FC602"
    assert finding.title.endswith(": K")
    assert finding.message == "autotune keys: K reads V"
    assert finding.facts["keys"][0]["got"] == "V"
    assert classify(Attempt.from_json(_json("FC602/near-by-name-3.2.0.json"))) == []


def test_a_key_past_the_end_completes_the_exception() -> None:
    """The IndexError gives the message, the audit of the keys the name."""
    keys = [
        {"key": "BT", "want": 64, "got": None, "fault": "past-end"},
        {"key": "K", "want": 64, "got": "BT", "fault": "shifted"},
    ]
    log = _log("FC601/golden-fla-0.2.0-kkt-3.1.0.log")
    found = classify(Attempt(Outcome.RAISED, stage="autotune", log=log, facts={"keys": keys}))
    assert [finding.code for finding in found] == ["FC601", "FC602"]
    assert found[0].facts == {"keys": keys[:1]}
    assert found[0].title.endswith(": BT")


def test_a_slow_compile_is_a_finding_that_changes_no_verdict() -> None:
    """Ten seconds and five times the median over releases."""
    slowest, quick = (
        _json("FC921/golden-fp16-sm70-3.4.0.json"),
        _json("FC921/near-bf16-sm70-3.6.0.json"),
    )
    assert [
        f.code for f in slow(slowest["seconds"], statistics.median(slowest["others"].values()))
    ] == ["FC921"]
    assert slow(quick["seconds"], statistics.median(quick["others"].values())) == []
    assert slow(9.9, 0.1) == []
    assert slow(40.0, 8.1) == []
    assert RULES["FC921"].effect == "compiles"


def test_resources_over_the_limits_of_a_target() -> None:
    """The row of a GPU decides: what fits an H100 need not fit an RTX 4090."""
    asked = Resources(shared=166_912, registers=64, threads=128)
    assert over_limits(asked, TARGETS["sm90"]) == []
    (finding,) = over_limits(asked, TARGETS["sm89"])
    assert (finding.code, finding.facts) == ("FC501", {"required": 166_912, "limit": 101_376})


def test_every_limit_has_its_code() -> None:
    """Shared memory, tensor memory, threads and registers, in the order in which Triton looks."""
    asked = Resources(shared=300_000, registers=255, threads=2_048, tensor_memory=768)
    assert [finding.code for finding in over_limits(asked, TARGETS["sm100"])] == [
        "FC501",
        "FC504",
        "FC502",
        "FC503",
    ]
    assert over_limits(Resources(), TARGETS["sm70"]) == []


def test_a_limit_has_one_signature_at_compile_time_and_at_run_time() -> None:
    """flacheck's own look at the resources and Triton's OutOfResources are the same failure."""
    (finding,) = over_limits(Resources(shared=245_760), TARGETS["sm90"])
    assert signature(finding, "load") == _signature("FC501/golden-sm90-3.2.0.log", "load")


@pytest.mark.parametrize(
    ("declaration", "name"),
    [
        (
            "mlir::triton::LinearLayout::reshapeOuts(llvm::ArrayRef<std::pair<X, int> >) const",
            "reshapeOuts",
        ),
        (
            "LinearLayout mlir::triton::gpu::(anonymous namespace)::choose(MLIRContext *, int)",
            "choose",
        ),
        (
            "virtual LogicalResult {anonymous}::ReduceOpConversion::matchAndRewrite(A, B&) const",
            "matchAndRewrite",
        ),
        ("main", "main"),
    ],
)
def test_the_bare_name_of_a_function(declaration: str, name: str) -> None:
    """Namespaces, templates and arguments go; both compilers' spelling of no name goes too."""
    assert bare_name(declaration) == name


PATHS = st.lists(
    st.text(string.ascii_lowercase + string.digits + "._-", min_size=1, max_size=8),
    min_size=1,
    max_size=5,
)
LINES = st.integers(1, 99_999)


@given(path=PATHS, line=LINES, program=st.sampled_from(["python3.11", "python", "triton-opt"]))
def test_an_assertion_keeps_its_signature_wherever_it_was_built(
    path: list[str], line: int, program: str
) -> None:
    """Neither the file's folder nor the line nor the program's name is part of the identity."""
    log = _log("FC302/golden-reshape-outs-3.2.0.log")
    moved = log.replace(
        "python3.11: /project/lib/Tools/", f"{program}: /{'/'.join(path)}/"
    ).replace(":562:", f":{line}:")
    assert moved != log or (line == 562 and path == ["project", "lib", "Tools"])
    assert signature(read(moved)[0], "ttgir") == signature(read(log)[0], "ttgir")


@given(
    path=PATHS, line=LINES, column=LINES, ssa=st.integers(0, 9_999), address=st.integers(0, 2**63)
)
def test_a_diagnostic_keeps_its_signature_over_places_and_temporaries(
    path: list[str], line: int, column: int, ssa: int, address: int
) -> None:
    """Paths, positions, SSA names and addresses are noise in MLIR's diagnostics."""
    moved = f"/{'/'.join(path)}/k.py:{line}:{column}: error: operand %{ssa} at {address:#x} does not dominate this use"
    plain = "/a/k.py:1:2: error: operand %7 at 0x10 does not dominate this use"
    assert signature(read(moved)[0], "ttgir") == signature(read(plain)[0], "ttgir")


@given(
    name=st.text(string.ascii_lowercase + string.digits + "_", min_size=8, max_size=8), line=LINES
)
def test_an_assembler_error_keeps_its_signature_over_temporary_files(name: str, line: int) -> None:
    """Every run of ptxas reads another temporary file."""
    moved = f"ptxas /tmp/tmp{name}.ptx, line {line}; error   : Feature '.bf16' requires .target sm_80 or higher"
    assert signature(read(moved)[0], "cubin") == _signature(
        "FC401/golden-bf16-add-3.2.0.log", "cubin"
    )


@given(required=st.integers(1, 10**9), limit=st.integers(1, 10**9))
def test_quantities_are_facts_and_no_identity(required: int, limit: int) -> None:
    """Two kernels over the limit by different amounts share a signature and keep their figures."""
    log = f"OutOfResources: out of resource: shared memory, Required: {required}, Hardware limit: {limit}."
    finding = read(log)[0]
    assert finding.facts == {"required": required, "limit": limit}
    assert signature(finding, None) == signature(read(log.replace(str(required), "7", 1))[0], None)


@given(st.text(max_size=400))
def test_any_text_can_be_read(text: str) -> None:
    """Whatever a program prints, reading gives known codes and short messages."""
    for finding in read(text):
        assert finding.code in RULES
        assert len(finding.message) <= MESSAGE_LIMIT
    assert isinstance(normalise(text), str)
