"""Rules against logs that really came from a compiler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flacheck.model import MESSAGE_LIMIT, Attempt, Outcome
from flacheck.rules import RULES, decisive, normalise
from flacheck.rules.classify import classify, read
from flacheck.rules.signature import signature
from tests.rule_logs import evidence, log_of, logs


@pytest.mark.parametrize(("code", "name"), evidence("golden"))
def test_a_golden_log_reads_as_its_code_first(code: str, name: str) -> None:
    """The first finding has the folder's code, a line and a message."""
    first = read(log_of(name), is_failed=RULES[code].warning)[0]
    assert first.code == code
    assert first.line is not None
    prefixes = ("AssertionError: ", "CompileTimeAssertionFailure: ", "CompilationError: ")
    assert first.excerpt in log_of(name) or first.excerpt.startswith(prefixes)
    assert first.message


@pytest.mark.parametrize(("code", "name"), evidence("near"))
def test_a_near_miss_does_not_read_as_the_code_it_resembles(code: str, name: str) -> None:
    """A near miss does not have the folder's code."""
    assert code not in {finding.code for finding in read(log_of(name))}


def test_a_text_without_a_failure_reads_as_nothing() -> None:
    """A successful compile has no finding."""
    assert read(log_of("FC000/near-warning-3.9.0.log")) == []
    assert read("") == []
    assert decisive("all fine\n") == ""


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
    """Quantities are numbers, names are text."""
    assert read(log_of(name))[0].facts == facts


def test_a_time_out_is_fc901_whatever_the_log_says() -> None:
    """A timeout's log is not a cause."""
    attempt = Attempt(
        Outcome.TIMED_OUT,
        stage="cubin",
        log=log_of("FC401/golden-bf16-add-3.2.0.log"),
        seconds=300.2,
    )
    (finding,) = classify(attempt)
    assert (finding.code, finding.facts) == ("FC901", {"seconds": 300.2})
    assert RULES["FC901"].effect == "unknown"


@pytest.mark.parametrize("name", [name for name in logs("golden") if name.startswith("FC902")])
def test_memory_is_fc902_even_when_it_comes_as_an_abort(name: str) -> None:
    """`bad_alloc` is unknown, not a failure of the kernel."""
    attempt = Attempt(Outcome.DIED, stage="llir", signal="SIGABRT", log=log_of(name))
    assert classify(attempt)[0].code == "FC902"
    assert RULES["FC902"].effect == "unknown"


def test_a_kill_without_a_word_is_memory() -> None:
    """A SIGKILL is out of memory only if the system counted one."""
    attempt = Attempt(Outcome.DIED, stage="cubin", signal="SIGKILL")
    assert classify(attempt)[0].code == "FC905"
    assert classify(replace(attempt, oom_killed=True))[0].code == "FC902"
    assert classify(Attempt(Outcome.OUT_OF_MEMORY, stage="cubin", peak_mb=4_096.0))[0].facts == {
        "peak_mb": 4_096.0
    }


@pytest.mark.parametrize(
    ("signal", "code"), [("SIGXFSZ", "FC904"), ("SIGXCPU", "FC901"), ("SIGSYS", "FC940")]
)
def test_a_signal_that_enforces_a_limit_is_unknown(signal: str, code: str) -> None:
    """A limit's signal outranks the log."""
    log = log_of("FC302/golden-reshape-outs-3.2.0.log")
    (finding,) = classify(Attempt(Outcome.DIED, stage="cubin", signal=signal, log=log))
    assert (finding.code, RULES[code].effect) == (code, "unknown")


def test_an_assembler_that_the_system_killed_was_out_of_memory() -> None:
    """A killed assembler is out of memory only if the system counted one."""
    attempt = Attempt(Outcome.RAISED, stage="cubin", host_error="SIGKILL")
    assert classify(attempt)[0].code == "FC905"
    assert classify(replace(attempt, oom_killed=True))[0].code == "FC902"


def test_a_killed_process_with_a_named_failure_keeps_its_name() -> None:
    """A message outranks SIGKILL."""
    log = log_of("FC302/golden-reshape-outs-3.2.0.log")
    assert classify(Attempt(Outcome.DIED, signal="SIGKILL", log=log))[0].code == "FC302"


def test_a_signal_without_a_message_says_where_it_struck() -> None:
    """A silent signal has its stage in the message."""
    (finding,) = classify(Attempt(Outcome.DIED, stage="ttgir", signal="SIGSEGV"))
    assert (finding.code, finding.message) == ("FC000", "SIGSEGV in stage ttgir, nothing on stderr")


def test_the_last_lines_stand_in_for_an_unknown_message() -> None:
    """An unknown message is quoted from the log's end."""
    (finding,) = classify(Attempt(Outcome.RAISED, stage="ttir", exit_code=3, log="one\ntwo\n"))
    assert finding.message == "exit status 3 in stage ttir, the last lines were:\none\ntwo"
    (silent,) = classify(Attempt(Outcome.NOT_STARTED))
    assert silent.message == "not_started in stage unknown, nothing on stderr"


def test_a_name_that_the_release_lacks_is_a_removed_api_whatever_the_message_says() -> None:
    """A missing API is FC101 unless a more specific rule matches."""
    log = "triton.compiler.errors.CompilationError: at 6:4:\ndef k(p):\n    f(p)\n    ^\nwords\n"
    attempt = Attempt(Outcome.RAISED, stage="ast", log=log)
    assert classify(attempt)[0].code == "FC117"
    facts = {"api": "cp.async_copy_global_to_shared"}
    (finding,) = classify(replace(attempt, facts=facts))
    assert (finding.code, finding.message) == ("FC101", "words")
    missing = log.replace("words", "AttributeError: module 'triton.language' has no attribute 'x'")
    assert classify(replace(attempt, facts=facts, log=missing))[0].code == "FC102"


def test_a_finished_attempt_has_no_findings() -> None:
    """A finished compile has no findings."""
    assert classify(Attempt(Outcome.FINISHED, log="error: looked bad but compiled")) == []


def test_a_key_past_the_end_completes_the_exception() -> None:
    """The finding has the exception's message and the key's name."""
    keys = [
        {"key": "BT", "want": 64, "got": None, "fault": "past-end"},
        {"key": "K", "want": 64, "got": "BT", "fault": "shifted"},
    ]
    log = log_of("FC601/golden-fla-0.2.0-kkt-3.1.0.log")
    findings = classify(Attempt(Outcome.RAISED, stage="autotune", log=log, facts={"keys": keys}))
    assert [finding.code for finding in findings] == ["FC601", "FC602"]
    assert findings[0].facts == {"keys": keys[:1]}
    assert findings[0].title.endswith(": BT")


@pytest.mark.slow
@given(st.text(max_size=400))
def test_any_text_can_be_read(text: str) -> None:
    """Any text gives known codes and short messages."""
    for finding in read(text):
        assert finding.code in RULES
        assert len(finding.message) <= MESSAGE_LIMIT
    assert isinstance(normalise(text), str)


@pytest.mark.parametrize(
    ("code", "name"),
    [(code, name) for code, name in evidence("golden") if RULES[code].effect != "compiles"],
)
def test_a_failing_cell_has_the_code_of_its_output(code: str, name: str) -> None:
    """A scan and `explain` give one code for one text."""
    attempt = Attempt(Outcome.RAISED, stage="ttgir", exit_code=1, log=log_of(name))
    assert classify(attempt)[0].code == code


def test_a_template_error_names_its_instantiation() -> None:
    """The innermost instantiation is a fact, but not in the signature."""
    text = log_of("FC801/golden-ninja-13.0.log")
    finding = read(text)[0]
    arguments = "Main=Mainloop<fp8e4nv, 32, 2>, Element=fp8e4nv, HeadDim=32"
    assert finding.facts["instantiation"] == arguments
    assert f"[with {arguments}]" in finding.message.splitlines()
    other = read(text.replace("HeadDim=32", "HeadDim=48"))[0]
    assert signature(finding, "cudafe++") == signature(other, "cudafe++")


def test_a_message_leaves_out_the_version_of_a_toolkits_library() -> None:
    """The message has no library version; the excerpt does."""
    text = (
        'a.cu(3): error: no suitable user-defined conversion from "cub::CUB_300001_SM_900::A<T>" '
        'to "thrust::THRUST_300001_SM_900_NS::B" exists\n'
        "          detected during instantiation of "
        '"void f<T>() [with T=cuda::std::__4::pair<int, int>]" at line 9\n'
    )
    finding = read(text)[0]
    assert finding.message.splitlines() == [
        'a.cu(3): error: no suitable user-defined conversion from "cub::A<T>" to "thrust::B" exists',
        "[with T=cuda::std::pair<int, int>]",
    ]
    assert finding.facts == {
        "source": "cub::A<T>",
        "wanted": "thrust::B",
        "instantiation": "T=cuda::std::pair<int, int>",
    }
    assert "cub::CUB_300001_SM_900::A<T>" in (finding.excerpt or "")
