"""From an attempt to a verdict, for kernels that are refused because of flacheck."""

from __future__ import annotations

from dataclasses import replace

from flacheck.engine.judge import judge
from flacheck.evidence.analysis.observation import observe
from flacheck.evidence.analysis.untested_cells import why_untested
from flacheck.model import Attempt, Outcome, Resources, Stubbed, Verdict
from tests import fake

ODD = Attempt(
    Outcome.RAISED,
    stage="ast",
    log="TypeError: 'dtype' object is not callable\n",
    exception=("TypeError",),
)
REMOVAL = "AttributeError: module 'triton.language' has no attribute 'make_block_ptr'\n"


def made_up(is_guess: bool):  # type: ignore[no-untyped-def]
    cell = fake.cell("k")
    origin = Stubbed("fake", "k", made_up=is_guess)
    return replace(cell, kernel=replace(cell.kernel, origin=origin))


def test_made_up_arguments_that_a_kernel_refuses_are_untested() -> None:
    """The stored record has the failure as it was, and the reader treats it as no evidence."""
    guess, plain = judge(made_up(True), ODD), judge(made_up(False), ODD)
    assert (guess.verdict, guess.code) == (plain.verdict, plain.code) == (Verdict.FAILS, "FC000")
    reasons = [why_untested(cell) for cell in observe([guess, plain])]
    assert reasons == ["the made-up arguments may not fit the kernel", None]


def test_a_kernel_that_reads_torch_is_unknown_beside_its_stand_in() -> None:
    """Its front end may accept the kernel where torch is installed."""
    log = "StubError: the kernel reads torch, and torch is not installed here\n"
    record = judge(fake.cell("k"), replace(ODD, log=log, exception=("StubError",)))
    assert record.verdict is Verdict.UNKNOWN
    assert record.reason == f"the kernel cannot be compiled without torch: {log.strip()}"


def test_a_record_holds_of_a_finding_what_names_it() -> None:
    """A record's finding has code, title and facts; message and log are stored elsewhere."""
    removal = replace(ODD, log=REMOVAL, exception=("AttributeError",))
    (finding,) = judge(fake.cell("k"), removal).findings
    assert sorted(finding) == ["code", "facts", "title"]
    assert finding["code"] == "FC102"


SCHEDULED = "k.py:210:15: error: operation scheduled before its operands\n"


def test_an_error_before_a_right_binary_is_a_warning() -> None:
    """The record compiles, with the finding; without a binary, or with an exception, it fails."""
    ended = Attempt(
        Outcome.RAISED, stage="ttgir", log=SCHEDULED, resources=Resources(registers=255)
    )
    record = judge(fake.cell("k"), ended)
    assert (record.verdict, record.stage) == (Verdict.COMPILES, "cubin")
    assert (record.code, record.signature, record.message) == (None, None, "")
    assert [finding["code"] for finding in record.findings] == ["FC205"]
    for other in (
        replace(ended, resources=Resources()),
        replace(ended, exception=("RuntimeError",)),
        replace(ended, log="error: op pipeliner doesn't know how to predicate this op\n"),
        replace(ended, log=SCHEDULED + "<inline asm>:1:1: error: invalid instruction\n"),
    ):
        assert (judge(fake.cell("k"), other).verdict) is Verdict.FAILS
    large = replace(ended, resources=Resources(registers=255, shared=1 << 20))
    assert judge(fake.cell("k"), large).code == "FC501"


def test_a_known_failure_of_a_made_up_call_is_one() -> None:
    """A removed API and a failure after the front end count for a made-up call too."""
    removal = replace(ODD, log=REMOVAL, exception=("AttributeError",))
    assert judge(made_up(True), removal).verdict is Verdict.FAILS
    assert judge(made_up(True), replace(ODD, stage="ttgir")).verdict is Verdict.FAILS


def test_a_kernel_that_no_launch_fits_fails() -> None:
    """Constants collected in `**meta` fail with every launch, a made-up one too."""
    text = "TypeError: dynamic_func() missing 1 required positional argument: 'meta'\n"
    attempt = replace(ODD, log=text)
    assert judge(made_up(True), attempt).verdict is Verdict.UNKNOWN
    record = judge(made_up(True), replace(attempt, facts={"api": "**meta"}))
    assert record.verdict is Verdict.FAILS
    assert [why_untested(cell) for cell in observe([record])] == [None]


def test_a_name_that_triton_no_longer_has_is_the_releases_failure() -> None:
    """A missing name of Triton is a finding; a missing name of the package is unknown."""
    failure = Attempt(Outcome.RAISED, stage="import", exception=("ImportError",))
    ours = replace(
        failure, log="ImportError: cannot import name 'Hub' from 'transformers.utils' (utils.py)\n"
    )
    theirs = replace(
        failure,
        log="ImportError: cannot import name 'libdevice' from 'triton.language' (language.py)\n",
    )
    assert judge(fake.cell("k"), ours).verdict is Verdict.UNKNOWN
    assert judge(fake.cell("k"), theirs).verdict is Verdict.FAILS


def test_what_a_line_of_the_kernel_calls_is_no_launch_that_does_not_fit() -> None:
    """The launcher's message for bad arguments is the same.

    Only a line of the kernel's source tells the two apart.
    """
    text = "store() missing 1 required positional argument: 'value'"
    launcher = replace(ODD, log=f"TypeError: {text}\n")
    assert judge(made_up(True), launcher).verdict is Verdict.UNKNOWN
    line = replace(launcher, exception=("CompilationError", "TypeError"), facts={"api": "tl.store"})
    record = judge(made_up(True), line)
    assert record.verdict is Verdict.FAILS
    assert record.findings[0]["facts"] == {"api": "tl.store"}
    (cell,) = observe([record])
    assert (cell.api, why_untested(cell)) == ("tl.store", None)


def test_only_an_autotuner_with_a_choice_skips_what_does_not_fit() -> None:
    """A program that launches such a kernel without an autotuner ends there."""
    needs = Attempt(Outcome.FINISHED, resources=Resources(shared=1 << 20))
    forgiven = replace(ODD, tolerated=True)
    cell = fake.cell("k")
    for configs in ((), cell.configs[:1]):
        alone = replace(cell, configs=configs)
        assert not judge(alone, needs).tolerated
        assert not judge(alone, forgiven).tolerated
    assert judge(cell, needs).tolerated
    assert judge(cell, forgiven).tolerated
    assert judge(cell, needs).code == "FC501"
