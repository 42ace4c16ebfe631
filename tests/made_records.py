"""Hand-made records for the tests of everything that works on records."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from flacheck import rules
from flacheck.evidence.analysis.context import Context
from flacheck.evidence.analysis.order import by_version
from flacheck.evidence.analysis.standing import Standing
from flacheck.evidence.analysis.standings import standing
from flacheck.evidence.analysis.summary import Summary, summarise
from flacheck.model import Finding, KeySet, Question, Record, RequestedCells, Verdict, digest
from flacheck.pipeline.fallbacks.alternatives import fallbacks
from flacheck.store import Store
from flacheck.subjects.inputs.extents import extents, of_cells

PACKAGE = "flash-linear-attention==0.1.1"
DELTA = "fla.ops.common.chunk_delta_h:chunk_gated_delta_rule_fwd_kernel_h"
SHAPE = {"K": 256, "V": 256, "H": 36, "T": 8192}


def launch(dtype: str = "bf16", **constexprs: Any) -> dict[str, Any]:
    """A launch of a kernel with one tensor, a gate that stays fp32 and these constexprs."""
    args: dict[str, Any] = {
        "k": {"dtype": dtype, "align": 16},
        "g": {"dtype": "fp32", "align": 16},
        "T": {"int": 8192},
    }
    return {"args": {**args, **{name: {"constexpr": value} for name, value in constexprs.items()}}}


def record(
    verdict: str = "compiles",
    toolchain: str = "triton==3.2.0",
    target: str = "sm90",
    dtype: str | None = "bf16",
    options: dict[str, Any] | None = None,
    constexprs: dict[str, Any] | None = None,
    **more: Any,
) -> Record:
    """Return a record, by default a plain compile of the delta-rule kernel."""
    base: dict[str, Any] = {
        "kernel": DELTA,
        "package": PACKAGE,
        "how": "stub",
        "toolchain": toolchain,
        "target": target,
        "dtype": dtype,
        "shape": SHAPE,
        "launch": launch(dtype or "bf16", **(constexprs or {"BC": 64})),
        "options": options or {"num_warps": 4, "num_stages": 2},
        "widened": False,
        "verdict": Verdict(verdict),
        "reason": None,
        "tolerated": False,
        "code": None,
        "signature": None,
        "stage": "cubin",
        "signal": None,
        "message": "",
        "findings": (),
        "seconds": 1.5,
        "peak_mb": 300.0,
        "cached": False,
        "resources": {
            "shared": 98304,
            "shared_limit": 232448,
            "registers": 128,
            "stack": 0,
            "spills": None,
        },
    }
    base.update(more)
    names = ("kernel", "package", "toolchain", "target", "dtype", "shape", "launch", "options")
    return Record.from_json({"key": digest([base[name] for name in names]), **base})


def failure(
    code: str = "FC302", line: str = "Assertion `reshapeOuts' failed.", **more: Any
) -> Record:
    """One record of a failing cell with a signature made of its code and line."""
    finding = {"code": code, "title": f"title of {code}", "facts": {}}
    fields = {
        "code": code,
        "message": line,
        "signature": rules.signature(Finding(code, "", line), "ttgir"),
        "findings": (finding,),
    }
    return record("fails", **{**fields, **more})


def unknown(code: str = "FC901", reason: str = "time-out after 300 s", **more: Any) -> Record:
    """One record of a cell that reached no verdict."""
    return record("unknown", **{"code": code, "reason": reason, **more})


def skipped(reason: str = "Triton 3.2.0 does not support sm120", **more: Any) -> Record:
    """Return a record of a cell that was skipped."""
    return record("skipped", **{"reason": reason, **more})


def between(name: str, good: Sequence[str], releases: Sequence[str]) -> str | None:
    """A requirement from the first to the last good release, without known ones between that are
    not good."""
    if not good:
        return None
    if len(good) == 1:
        return f"{name}=={good[0]}"
    # Known releases between the first and the last without a record are excluded as well.
    order = sorted(good, key=by_version)
    first, last = by_version(order[0]), by_version(order[-1])
    bad = [
        f"!={version}"
        for version in releases
        if version not in good and first < by_version(version) < last
    ]
    return name + ",".join([f">={order[0]}", *bad, f"<={order[-1]}"])


def asked_of(
    records: Sequence[Record],
    about: str = "seeds",
    made_up: Sequence[str] = (),
    others: Sequence[Record] = (),
    operators: Mapping[str, Sequence[Record]] | None = None,
    **more: Any,
) -> tuple[Question, list[KeySet]]:
    """Return a question for exactly these records' cells, with its key sets. Its launches also have
    the configurations of `others`; `operators` lead to launches."""
    places: dict[tuple[str, str], dict[str, str]] = {}
    for each in records:
        places.setdefault((each.toolchain, each.target), {})[each.key] = each.kernel
    extent_on = extents(of_cells(each.cell for each in (*records, *others)))
    for place, extent in extent_on.items():
        launches = {
            name: tuple(filter(None, (extent.launch_of(each.cell) for each in own)))
            for name, own in (operators or {}).items()
        }
        extent_on[place] = structs.replace(extent, operators=launches)
    sets = {
        place: KeySet(kernels, frozenset(made_up) & kernels.keys(), {}, extent_on.get(place))
        for place, kernels in places.items()
    }
    requests = [
        RequestedCells(*place, len(keys.kernels), keys.digest) for place, keys in sets.items()
    ]
    return Question(about, asked=tuple(requests), **more), list(sets.values())


def whole(records: Sequence[Record], **more: Any) -> list[Standing]:
    """Return the standings of a question for exactly these records' cells."""
    question, sets = asked_of(records, **more)
    by_digest = {keys.digest: keys for keys in sets}
    return [
        standing(
            question,
            request,
            by_digest[request.keys or ""],
            [each for each in records if (each.toolchain, each.target) == request.place],
        )
        for request in question.asked
    ]


def summary_of(records: Sequence[Record], context: Context | None = None, **more: Any) -> Summary:
    """Return the summary of a scan of exactly these records' cells."""
    request = replace(context or CONTEXT, standings=whole(records, **more))
    return summarise(records, request)


def scanned(store: Store, records: Sequence[Record], about: str = "seeds", **more: Any) -> str:
    """A finished scan of just these records' cells in a store; its run."""
    question, sets = asked_of(records, about, **more)
    run = store.begin_run({}, about, {}, question=question, key_sets=sets)
    store.add_many(run, records)
    store.finish_run(run)
    return run


TORCH = {"3.1.0": ["2.5.1", "2.5.0"], "3.2.0": ["2.6.0"], "3.4.0": ["2.8.0"]}
CONTEXT = Context(
    torch_for=lambda triton: TORCH.get(triton, []), specifier=between, fallbacks=fallbacks
)
# Small runs of one kernel in which anything may have happened.
CELLS = st.builds(
    lambda verdict, tolerated, warps, block, dtype, toolchain: record(
        verdict,
        tolerated=tolerated and verdict == "fails",
        options={"num_warps": warps},
        constexprs={"BC": block},
        dtype=dtype,
        toolchain=toolchain,
        code={"fails": "FC302", "unknown": "FC901"}.get(verdict),
    ),
    st.sampled_from(["compiles", "compiles", "fails", "unknown", "skipped"]),
    st.booleans(),
    st.sampled_from([2, 4, 8, 16]),
    st.sampled_from([32, 64]),
    st.sampled_from(["bf16", "fp32"]),
    st.sampled_from(["triton==3.1.0", "triton==3.2.0"]),
)
RUNS = st.lists(CELLS, max_size=14, unique_by=lambda cell: cell.key)


def records_in(file: Path) -> int:
    """Return the number of records in a store's file while another process writes to it."""
    if not file.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
            return int(db.execute("SELECT count(*) FROM records").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
