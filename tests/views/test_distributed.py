"""The view of all workers: section 15 of the specification, the synthetic truth, missing calls, and real traces."""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.bus_bandwidth import bus_factor
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.dtypes import element_bytes
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Figures, Heat, Series
from tb_plugin.views.distributed.rank.profile import table
from tb_plugin.views.distributed.waiting import caused_by
from tests import synthetic as synthetic_traces
from tests.builders import TraceBuilder, kernel, model, trace
from tests.calls import Call, calls_table
from tests.conftest import SAMPLE_FILES, SAMPLES, SHARED, loaded, needs_shared, sample
from tests.depth import sampled
from tests.jobs_of_parts import VIEW, Rows, notices_of, part_with, table_of, view_of


def parts_of(tables: Mapping[str, TraceTable]) -> list[Part]:
    return [replace(VIEW.part(table, Params()), worker=name) for name, table in tables.items()]


def workers_of(parts: Sequence[Part], **params: Any) -> dict[str, dict[str, Any]]:
    return {row["worker"]: row for row in table_of(parts, "workers", **params)}


def findings(parts: Sequence[Part], **params: Any) -> dict[str, Any]:
    return {n.rule: {f.metric.key: f.value for f in n.figures} for n in notices_of(parts, **params)}


def overlaps(parts: Sequence[Part], worker: str) -> list[int]:
    """Computation, overlap, communication and other of the first step, in microseconds."""
    row = next(row for row in table_of(parts, "steps") if row["worker"] == worker)
    keys = ("compute_alone_ns", "overlap_ns", "exposed_communication_ns", "step_other_ns")
    assert row["compute_ns"] + row["exposed_communication_ns"] + row["step_other_ns"] == row["step_total_ns"]
    return [row[key] // 1000 for key in keys]


def operations(parts: Sequence[Part], worker: str) -> list[tuple[Any, ...]]:
    """Section 15's rows: name, calls, size, mean size, latency, mean, transfer, mean."""
    ns = ("latency_ns", "mean_latency_ns", "transfer_ns", "mean_transfer_ns")
    return [
        (
            *(row["collective"], row["calls"], row["comm_bytes"], round(row["mean_comm_bytes"])),
            *(round(row[key] / 1000) for key in ns),
        )
        for row in table_of(parts, "operations")
        if row["worker"] == worker
    ]


def op(builder: TraceBuilder, name: str, at: int, dur: int, ext: int, elements: int | None = None) -> TraceBuilder:
    shapes = None if elements is None else [[elements]]
    types = None if elements is None else ["float"]
    return builder.op(name, at, dur, ext, shapes=shapes, **{"Input type": types})


# Section 15


def nccl() -> list[Part]:
    """The host call is no part of a NCCL collective here: durations are the kernels'. The old plugin joins the two."""
    w0 = op(trace().step(0, 0, 235), "nccl:broadcast", 0, 75, 146, 53120)
    w0.on_device(kernel("ncclKernel", 16, 16), ext=146)
    op(w0, "aten::add_", 100, 20, 24504).on_device(kernel("k", 161, 130), ext=24504)
    op(w0, "nccl:all_reduce", 160, 75, 2513, 2049000).on_device(kernel("ncclKernel", 1556, 162), ext=2513)
    w1 = op(trace().step(0, 0, 235), "nccl:broadcast", 0, 20, 146, 53120)
    w1.on_device(kernel("ncclKernel", 31, 8), ext=146)
    op(w1, "aten::add_", 25, 20, 24504).on_device(kernel("k", 161, 30), ext=24504)
    op(w1, "nccl:all_reduce", 160, 75, 2513, 2049000).on_device(kernel("ncclKernel", 1058, 562), ext=2513)
    return parts_of({"w0": w0.table(), "w1": w1.table()})


def test_section_15_nccl() -> None:
    parts = nccl()
    assert [row["step"] for row in table_of(parts, "steps")] == ["0", "0"]
    assert overlaps(parts, "w0") == [32, 73, 16, 114]
    assert overlaps(parts, "w1") == [152, 9, 22, 52]
    # The old plugin, with the host calls: [30, 75, 75, 55] and [121, 40, 74, 0];
    # latencies 75 and 1558, 39 and 1133; the sizes and calls are its own.
    assert operations(parts, "w0") == [
        ("broadcast", 1, 212480, 212480, 16, 16, 16, 16),
        ("all_reduce", 1, 8196000, 8196000, 1556, 1556, 1058, 1058),
    ]
    assert operations(parts, "w1") == [
        ("broadcast", 1, 212480, 212480, 31, 31, 16, 16),
        ("all_reduce", 1, 8196000, 8196000, 1058, 1058, 1058, 1058),
    ]
    times = {name: (row["transfer_ns"], row["wait_ns"]) for name, row in workers_of(parts).items()}
    assert times == {"w0": (1_074_000, 498_000), "w1": (1_074_000, 15_000)}


def gloo(device: bool) -> list[Part]:
    def worker(events: Sequence[tuple[str, int, int, int, int]], add: int, compute: tuple[int, int]) -> TraceTable:
        end = max(at + dur for _, at, dur, _, _ in events)
        builder = trace().step(0, 0, max(end, compute[0] + compute[1]))
        for name, at, dur, ext, elements in events:
            op(builder, name, at, dur, ext, elements)
        op(builder, "aten::add_", 0, add, 24504)
        if device:
            builder.on_device(kernel("k", compute[1], compute[0]), ext=24504)
        else:
            op(builder, "aten::mul", *compute, 24505)
        return builder.table()

    b, a = "gloo:broadcast", "gloo:all_reduce"
    w0 = [(b, 16, 38, 165, 53120), (b, 25, 36, 166, 53120), (b, 66, 18, 167, 53120)]
    w0 += [(a, 110, 18, 2513, 2049000), (a, 120, 36, 2516, 2049000)]
    w1 = [(b, 20, 28, 165, 53120), (b, 28, 30, 166, 53120), (b, 77, 6, 167, 53120)]
    w1 += [(a, 88, 38, 2513, 2049000), (a, 130, 16, 2516, 2049000)]
    return parts_of({"w0": worker(w0, 20, (30, 101)), "w1": worker(w1, 30, (70, 70))})


@pytest.mark.parametrize(
    ("device", "first", "second"),
    [(True, [31, 70, 39, 16], [16, 54, 44, 32]), (False, [47, 74, 35, 0], [36, 64, 34, 12])],
    ids=["gloo+GPU", "gloo CPU"],
)
def test_section_15_gloo(device: bool, first: list[int], second: list[int]) -> None:
    parts = gloo(device)
    assert (overlaps(parts, "w0"), overlaps(parts, "w1")) == (first, second)
    times = {name: (row["transfer_ns"], row["wait_ns"]) for name, row in workers_of(parts).items()}
    assert times == {"w0": (75_000, 34_000), "w1": (78_000, 20_000)}
    assert [row[4:] for row in operations(parts, "w0")] == [(63, 21, 41, 14), (46, 23, 34, 17)]
    assert [row[4:] for row in operations(parts, "w1")] == [(44, 15, 44, 15), (54, 27, 34, 17)]
    assert all(row["calls"] == 5 for row in workers_of(parts).values())


# Truth

TRUTH = json.loads((SAMPLES / "truth" / "synthetic_ddp.json").read_text())["workers"]


def synthetic() -> list[Part]:
    names = [name for name in SAMPLE_FILES if name.startswith("synthetic_ddp/")]
    return parts_of({name.split("/")[1].split(".")[0]: sample(name) for name in names})


def test_every_wait_and_transfer_of_the_synthetic_run_is_exact() -> None:
    rows = table_of(synthetic(), "collectives")
    found = {(row["worker"], row["sequence"]): row for row in rows}
    assert len(rows) == len(found) == 48
    for worker, truth in TRUTH.items():
        for one in truth["collectives"]:
            row = found[worker, one["seq"]]
            assert (row["wait_ns"], row["transfer_ns"]) == (one["wait_ns"], one["transfer_ns"])
            assert (row["dur_ns"], row["comm_bytes"]) == (one["dur_ns"], one["bytes"])
            assert row["step"] == str(one["step"]) and row["last_worker"] == "rank2"
            rate = one["bytes"] / (one["transfer_ns"] * 1e-9)
            assert row["algorithm_bandwidth"] == pytest.approx(rate)
            assert row["bus_bandwidth"] == pytest.approx(rate * 1.5)


def test_the_planted_straggler_is_found() -> None:
    found = findings(synthetic())
    assert list(found) == ["straggler"]
    assert found["straggler"]["worker"] == "rank2" and found["straggler"]["last_share"] == 1.0
    waits = sum(one["wait_ns"] for truth in TRUTH.values() for one in truth["collectives"])
    assert found["straggler"]["caused_wait_ns"] == waits


def without_calls(part: Part, gone: set[int], numbered: bool) -> Part:
    """A part without some calls, and without sequence numbers where they must be aligned."""
    frame = part.frames["collectives"]
    keep = [i for i in range(frame.data.num_rows) if i not in gone]
    data = frame.data.take(keep)
    if not numbered:
        at = data.column_names.index("sequence")
        data = data.set_column(at, "sequence", pa.nulls(data.num_rows, pa.int64()))
    return replace(part, frames={**part.frames, "collectives": replace(frame, data=data)})


PLANTED = {
    "lost on a waiting rank": {"ranks": 4, "missing_rank": 1, "absent_ranks": (3,)},
    "lost on the straggler": {"ranks": 4, "missing_rank": 2, "absent_ranks": (3,)},
    "lost, absent and late": {"ranks": 5, "missing_rank": 1, "absent_ranks": (3,), "late_rank": 4, "late_steps": 2},
    "tensor parallel": {"ranks": 8, "tensor_parallel": 2, "missing_rank": 4, "absent_ranks": (7,)},
}


@functools.lru_cache(maxsize=1)
def planted(name: str) -> tuple[list[Any], list[Part]]:
    """What a plan generates, with its truth, and its parts."""
    workers = synthetic_traces.generate(
        synthetic_traces.Config(steps=6, layers=1, slow_rank=2, seed=5, **PLANTED[name])
    )
    return workers, parts_of({w.name: model("".join(w.text()).encode()) for w in workers})


@pytest.mark.parametrize("numbered", [True, False], ids=["by number", "aligned"])
@pytest.mark.parametrize("name", sampled([*PLANTED], ["lost, absent and late", "tensor parallel"]))
def test_planted_stragglers_and_waits_are_found(name: str, numbered: bool) -> None:
    """A tenth of the collectives of one rank is lost and one rank is absent: the generator knows every wait."""
    plan, (workers, every) = PLANTED[name], planted(name)
    parts = [without_calls(part, set(), numbered) for part in every]
    lost = [c for w in workers for c in w.truth["collectives"] if not c["recorded"]]
    assert len(lost) in (1, 2, 3)
    seen = Counter((c["group"], c["seq"]) for w in workers for c in w.truth["collectives"] if c["recorded"])
    rows = workers_of(parts)
    expected = {}
    for worker in workers:
        known = [c for c in worker.truth["collectives"] if c["recorded"]]
        matched = [c for c in known if seen[c["group"], c["seq"]] > 1]
        wait, transfer = (sum(c[key] for c in matched) for key in ("wait_ns", "transfer_ns"))
        expected[worker.name] = wait
        row = rows[worker.name]
        assert (row["calls"], row["matched"], row["unmatched"]) == (len(known), len(matched), len(known) - len(matched))
        assert row["wait_ns"] == pytest.approx(wait, rel=0.01, abs=0.01 * sum(expected.values()))
        assert row["transfer_ns"] == pytest.approx(transfer, rel=0.01)
    found = findings(parts)
    assert found["straggler"]["worker"] == "rank2" and found["straggler"]["last_share"] > 0.9
    assert (found["bounds"]["workers"], found["bounds"]["world_size"]) == (len(workers), plan["ranks"])
    assert found["straggler"]["caused_wait_ns"] <= sum(row["wait_ns"] for row in rows.values())
    if "tensor_parallel" not in plan:
        assert found["straggler"]["caused_wait_ns"] == pytest.approx(sum(expected.values()), rel=0.01)


def test_process_groups_are_kept_apart_and_named() -> None:
    """Tensor- and data-parallel groups of four ranks, one late, one with lost kernels: every group by its own numbers."""
    names = [name for name in SAMPLE_FILES if name.startswith("synthetic_groups/")]
    parts = parts_of({name.split("/")[1].split(".")[0]: sample(name) for name in names})
    truth = json.loads((SAMPLES / "truth" / "synthetic_groups.json").read_text())["workers"]
    groups = {(row["group"], row["group_description"]): row["group_ranks"] for row in table_of(parts, "process_groups")}
    assert groups == {
        ("0", "default_pg"): "[0, 1, 2, 3]", ("1", "tp"): "[0, 1]", ("2", "tp"): "[2, 3]", ("3", "dp"): "[0, 2]",
        ("4", "dp"): "[1, 3]",
    }  # fmt: skip
    recorded = {(w, c["group"], c["seq"]): c for w, t in truth.items() for c in t["collectives"] if c["recorded"]}
    rows = {(row["worker"], row["group"], row["sequence"]): row for row in table_of(parts, "collectives")}
    assert rows.keys() == recorded.keys()
    for key, one in recorded.items():
        row = rows[key]
        pair = [other for other in recorded if other[1:] == key[1:]]
        assert (row["comm_bytes"], row["dur_ns"], row["step"]) == (one["bytes"], one["dur_ns"], str(one["step"]))
        if len(pair) == 2:
            assert (row["wait_ns"], row["transfer_ns"], row["timing"]) == (
                one["wait_ns"],
                one["transfer_ns"],
                "measured",
            )
            assert row["algorithm_bandwidth"] == row["bus_bandwidth"]  # the factor of two ranks is 1
        else:
            assert (row["wait_ns"], row["match"], row["timing"]) == (None, None, None)
    assert findings(parts)["straggler"]["worker"] == "rank1"


def test_the_straggler_s_sentence_agrees_with_the_bars_where_collectives_overlap() -> None:
    """Nine asynchronous calls at once: each waits for 60, and rank0 waits for 60 in all."""
    late = [call("all_reduce", at, 40, n, "0") for n, at in enumerate(range(160, 178, 2), 1)]
    early = [call("all_reduce", at, 100, n, "0") for n, at in enumerate(range(100, 118, 2), 1)]
    parts = [part_of("rank0", early, step_ns=400), part_of("rank1", late, step_ns=400)]
    bars = view_of(parts).payloads["waiting"]
    assert isinstance(bars, Series)
    transfer, wait = (line.values for line in bars.lines)
    assert (transfer, wait) == ([56, 56], [60, 0])
    told = findings(parts)["straggler"]
    assert {key: told[key] for key in ("worker", "last_share", "caused_wait_ns")} == {
        "worker": "rank1", "last_share": 1.0, "caused_wait_ns": 60
    }  # fmt: skip
    rows = workers_of(parts)
    assert [row["caused_wait_ns"] for row in rows.values()] == [0, 60]


@given(data=st.data())
def test_caused_waits_are_what_every_nanosecond_says(data: st.DataObject) -> None:
    """Against sets of nanoseconds: waiting for somebody, and no transfer of this worker in this step at that moment."""
    times = st.lists(st.integers(0, 30), min_size=3, max_size=3).map(sorted)
    calls = st.tuples(st.integers(0, 3), times, st.integers(0, 2))
    rows = data.draw(st.lists(calls, min_size=1, max_size=10))
    key, start, moving, end, last = np.array([(k, *t, w) for k, t, w in rows], np.int64).T
    expected = [0, 0, 0]
    for place in range(4):
        transfers = {t for k, (_, b, c), _ in rows if k == place for t in range(b, c)}
        for cause in range(3):
            waits = {t for k, (a, b, _), w in rows if (k, w) == (place, cause) for t in range(a, b)}
            expected[cause] += len(waits - transfers)
    cause, _, length = caused_by(key, start, moving, end, last)
    assert [int(length[cause == worker].sum()) for worker in range(3)] == expected


@st.composite
def any_calls(draw: st.DrawFn) -> list[Call]:
    """Up to a dozen calls of one worker in order of time, that may overlap, with or without numbers, ends and groups."""
    found = []
    for at in sorted(draw(st.lists(st.integers(0, 200), max_size=12))):
        name = draw(st.sampled_from(["all_reduce", "broadcast", "all_to_all", "send", "recv"]))
        one = call(name, at, draw(st.integers(0, 60)), draw(st.integers(-1, 3)), draw(st.sampled_from(["0", None])))
        found.append(
            dataclasses.replace(
                one,
                group=draw(st.sampled_from(["0", "1"])),
                group_size=draw(st.integers(-1, 4)),
                sequence=draw(st.integers(-1, 4)),
                source_rank=draw(st.integers(-1, 2)),
                destination_rank=draw(st.integers(-1, 2)),
            )
        )
    return found


@given(st.lists(any_calls(), min_size=2, max_size=4), st.sampled_from([None, 2, 4, 8]))
def test_what_holds_for_any_calls(workers: list[list[Call]], world: int | None) -> None:
    parts = [part_of(f"rank{w}", calls, world) for w, calls in enumerate(workers)]
    rows, totals = table_of(parts, "collectives"), workers_of(parts)
    assert len(rows) == sum(map(len, workers))
    matches: dict[int, Rows] = {}
    for row in rows:
        if row["match"] is None:
            assert row["timing"] is row["wait_ns"] is row["transfer_ns"] is row["last_worker"] is None
        else:
            matches.setdefault(row["match"], []).append(row)
            assert row["wait_ns"] >= 0 <= row["transfer_ns"]
            assert row["wait_ns"] + row["transfer_ns"] == row["dur_ns"]
    for ones in matches.values():
        names = [row["worker"] for row in ones]
        assert len(set(names)) == len(names) == ones[0]["matched_workers"] > 1
        assert len({(row["group"], row["timing"], row["last_worker"]) for row in ones}) == 1
        assert len({row["collective"] in ("send", "recv") or row["collective"] for row in ones}) == 1
        assert {row["wait_ns"] for row in ones if row["worker"] == ones[0]["last_worker"]} == {0}
    waits = {name: row["wait_ns"] for name, row in totals.items()}
    for name, row in totals.items():
        assert row["caused_wait_ns"] <= sum(waits.values()) - waits[name]
        assert waits[name] >= 0 and waits[name] + row["transfer_ns"] <= row["latency_ns"]
        assert row["last_share"] is None or 0 <= row["last_share"] <= 1
    assert sum(row["calls"] for row in table_of(parts, "operations")) == len(rows)


def test_a_missing_rank_makes_waiting_a_lower_and_transfer_an_upper_bound() -> None:
    """The absent rank is the straggler: what its peers wait for it cannot be seen and must not be claimed as transfer."""
    everyone = synthetic()
    parts = [part for part in everyone if part.worker != "rank2"]
    found = findings(parts)
    assert found["bounds"] == {"workers": 3, "world_size": 4, "bounded": 36, "matched": 36}
    assert "straggler" not in found
    whole, seen = workers_of(everyone), workers_of(parts)
    for worker in seen:
        assert seen[worker]["wait_ns"] <= whole[worker]["wait_ns"]
        assert seen[worker]["transfer_ns"] >= whole[worker]["transfer_ns"]
        assert seen[worker]["bounded"] == 12 and whole[worker]["bounded"] == 0
    assert {row["timing"] for row in table_of(parts, "collectives")} == {"bound"}
    assert {row["timing"] for row in table_of(everyone, "collectives")} == {"measured"}
    view = view_of(parts)
    bars, headline = view.payloads["waiting"], view.payloads["headline"]
    assert isinstance(bars, Series) and isinstance(headline, Figures)
    assert [line.metric.title for line in bars.lines] == ["Transfer (max)", "Wait (min)"]
    assert "Wait share (min)" in {figure.metric.title for figure in headline.figures}


def test_groups_that_are_whole_are_measured_though_the_job_has_more_ranks() -> None:
    """Two tensor-parallel groups of two, one of them here: nothing about it is a bound."""
    two = [call("all_reduce", 0, 30), call("all_reduce", 50, 30)]
    parts = [part_of("rank0", two, 4), part_of("rank1", two, 4)]
    assert {row["timing"] for row in table_of(parts, "collectives")} == {"measured"}
    assert set(findings(parts)) == {"workers_missing"}
    # Without a recorded size nothing says that the group is whole, unless all ranks of the job are here.
    unknown = [dataclasses.replace(one, group_size=-1) for one in two]
    for world, timing in ((4, "bound"), (2, "measured"), (None, "measured")):
        parts = [part_of("rank0", unknown, world), part_of("rank1", unknown, world)]
        assert {row["timing"] for row in table_of(parts, "collectives")} == {timing}
    # The list of its ranks does.
    for ranks, timing in (("[0, 1]", "measured"), ("[0, 1, 2]", "bound")):
        listed = [dataclasses.replace(one, ranks=ranks) for one in unknown]
        parts = [part_of("rank0", listed, 4), part_of("rank1", listed, 4)]
        assert {row["timing"] for row in table_of(parts, "collectives")} == {timing}


# Sending and receiving


def p2p(name: str, source: int, destination: int, at: int, elements: int = 1, **more: Any) -> Call:
    one = dataclasses.replace(call(name, at, elements=elements, **more), group_size=4, ranks="[0, 1, 2, 3]")
    return dataclasses.replace(one, source_rank=source, destination_rank=destination)


def test_sends_and_receives_meet_by_their_ends_and_not_by_their_own_numbers() -> None:
    """A pipeline: each rank numbers its own calls, so equal numbers mean nothing."""
    workers = [
        [p2p("send", 0, 1, 0, sequence=1), p2p("recv", 1, 0, 100, sequence=2)],
        [p2p("recv", 0, 1, 0, sequence=1), p2p("send", 1, 2, 50, sequence=2), p2p("send", 1, 0, 100, sequence=3)],
        [p2p("recv", 1, 2, 50, sequence=1), p2p("send", 2, 3, 70, sequence=2)],
    ]
    assert pairs(*workers) == [((0, 0), (1, 0)), ((0, 1), (1, 2)), ((1, 1), (2, 0))]
    parts = [part_of(f"rank{w}", calls, 4) for w, calls in enumerate(workers)]
    # The last one goes to a rank that is not here. Of the others both ends are known.
    assert [row["unmatched"] for row in workers_of(parts).values()] == [0, 0, 1]
    assert {row["timing"] for row in table_of(parts, "collectives") if row["match"] is not None} == {"measured"}


def test_a_lost_send_shifts_no_other_and_both_directions_are_kept_apart() -> None:
    sizes = [1, 2, 3, 4]
    sends = [p2p("send", 0, 1, 100 * n, n) for n in sizes]
    receives = [p2p("recv", 0, 1, 100 * n, n) for n in sizes if n != 2]
    back = [p2p("recv", 1, 0, 100 * n + 50, n) for n in sizes]
    forth = [p2p("send", 1, 0, 100 * n + 50, n) for n in sizes]
    found = pairs([*sends, *back], [*receives, *forth], [])
    assert found == [((0, 0), (1, 0)), ((0, 2), (1, 1)), ((0, 3), (1, 2))] + [((0, i), (1, i - 1)) for i in range(4, 8)]


def test_sends_without_ends_are_unmatched_but_between_the_only_two_workers() -> None:
    plain = [call("send", 0), call("recv", 50)], [call("recv", 0), call("send", 50)]
    assert pairs(*plain) == [((0, 0), (1, 0)), ((0, 1), (1, 1))]
    # Both send first and receive then: a send never is the other's send.
    assert pairs(plain[0], plain[0]) == [((0, 0), (1, 1)), ((0, 1), (1, 0))]
    assert pairs(*plain, []) == []
    parts = [part_of("rank0", plain[0], 8), part_of("rank1", plain[1], 8)]
    assert [row["unmatched"] for row in workers_of(parts).values()] == [2, 2]


def test_the_ends_of_a_send_are_read_from_the_trace() -> None:
    """Src Rank and Dst Rank are ranks of the job; the own one is the file's. A group of two has only one other."""

    def ends(name: str, **args: Any) -> tuple[Any, Any]:
        builder = trace().step(0, 0, 100)
        builder.root["distributedInfo"] = {"rank": 5, "world_size": 8}
        builder.op("record_param_comms", 0, 9, 1, **{"Collective name": name, "dtype": "Float", **args})
        builder.on_device(kernel("ncclDevKernel_SendRecv", 20, 10), ext=1)
        (row,) = table_of(parts_of({"rank5": builder.table()}), "collectives")
        assert row["collective"] == name
        return row["source_rank"], row["destination_rank"]

    assert ends("send", **{"Dst Rank": 6, "Rank": 1}) == (5, 6)
    assert ends("recv", **{"Src Rank": 4}) == (4, 5)
    assert ends("send", **{"Process Group Ranks": "[5, 7]"}) == (5, 7)
    assert ends("recv", **{"Process Group Ranks": "[3, 5, 7]"}) == (None, 5)
    assert ends("broadcast", **{"Src Rank": 4}) == (None, None)


def test_steps_are_chosen_after_matching() -> None:
    parts = synthetic()
    chosen = workers_of(parts, steps=("1",))["rank0"]
    known = [one for one in TRUTH["rank0"]["collectives"] if one["step"] == 1]
    assert chosen["wait_ns"] == sum(one["wait_ns"] for one in known)
    assert chosen["calls"] == len(known) == 4
    heat = view_of(parts, extra=(("measure", "wait_ns"),)).payloads["heat"]
    assert isinstance(heat, Heat) and heat.x == ["0", "1", "2"]
    assert heat.values[1] == chosen["wait_ns"]


# Matching


def call(name: str, at: int, dur: int = 10, elements: int = 1, step: str | None = None, sequence: int = -1) -> Call:
    return Call(step, name, "Float", elements, 4 * elements, "", "", 2, sequence, -1, -1, at, dur, True)


def part_of(worker: str, calls: Sequence[Call], world: int | None = None, step_ns: int = 1000) -> Part:
    """A part of nothing but calls."""
    return part_with(worker, {"collectives": calls_table(calls)}, world, step_ns)


def pairs(*workers: Sequence[Call]) -> list[tuple[tuple[int, int], ...]]:
    """(worker, call) of each match."""
    found: dict[int, list[tuple[int, int]]] = {}
    for row in table_of([part_of(f"{w}", calls) for w, calls in enumerate(workers)], "collectives"):
        if row["match"] is not None:
            found.setdefault(row["match"], []).append((int(row["worker"]), row["call"]))
    return sorted(tuple(places) for places in found.values())


def test_equal_calls_are_kept_apart_by_their_step() -> None:
    full = [call("all_reduce", i * 100, step=str(i // 2)) for i in range(6)]
    short = full[:1] + full[2:]
    assert [row for row in pairs(full, short) if row[0][1] >= 2] == [((0, i), (1, i - 1)) for i in range(2, 6)]


def test_calls_in_another_order_still_meet() -> None:
    one = [call("all_reduce", 0, elements=1), call("broadcast", 50, elements=2)]
    other = [call("broadcast", 0, elements=2), call("all_reduce", 50, elements=1)]
    assert pairs(one, other) == [((0, 0), (1, 1)), ((0, 1), (1, 0))]


def test_a_worker_that_starts_late_is_matched_by_number() -> None:
    full = [call("all_reduce", i * 100, sequence=i) for i in range(6)]
    assert pairs(full, full[3:]) == [((0, i), (1, i - 3)) for i in range(3, 6)]


# Names, types, factors


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("allreduce", "all_reduce"),
        ("c10d::allreduce_", "all_reduce"),
        ("c10d::_allgather_base_", "all_gather"),
        ("nccl:_all_gather_base", "all_gather"),
        ("gloo:all_to_all", "all_to_all"),
        ("_c10d_functional::reduce_scatter_tensor", "reduce_scatter"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_reduce"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "send_recv"),
        ("cross_device_reduce_1stage", "all_reduce"),
        ("all_to_allv", "all_to_allv"),
        ("void deep_ep::internode_ll::combine<true>(int)", "all_to_allv"),
        ("ncclSymkDevKernel_AllGather_LLMC(ncclSymkDevWorkArgs<4096ul>)", "all_gather"),
        ("symm_mem::two_shot_all_reduce_", "all_reduce"),
        ("ucc:reduce_scatter", "reduce_scatter"),
        ("hcom_allReduce__123_0_1", "all_reduce"),
        ("oneccl_allgatherv_small", "all_gather"),
        ("mpi:scatter", "scatter"),
        ("wait", "wait"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "ncclDevKernel_Generic"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert collective_name(text) == name


PYTHON_TYPES = {
    1: "bool uint8 int8 uint1 uint2 uint3 uint4 uint5 uint6 uint7 int1 int2 int3 int4 int5 int6 int7 qint8 quint8 quint2x4 "
    "quint4x2 bits8 bits1x8 bits2x4 bits4x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu "
    "float4_e2m1fn_x2",
    2: "float16 bfloat16 int16 uint16 bits16",
    4: "float32 int32 uint32 qint32 complex32",
    8: "float64 int64 uint64 complex64",
    16: "complex128",
}
"""Every dtype of PyTorch 2.13 and its ``itemsize``."""
ENUM_TYPES = {
    1: "Byte Char Bool QInt8 QUInt8 QUInt4x2 QUInt2x4 Bits1x8 Bits2x4 Bits4x2 Bits8 Float8_e5m2 Float8_e4m3fn "
    "Float8_e5m2fnuz Float8_e4m3fnuz Float8_e8m0fnu Float4_e2m1fn_x2 UInt1 UInt2 UInt3 UInt4 UInt5 UInt6 UInt7 "
    "Int1 Int2 Int3 Int4 Int5 Int6 Int7",
    2: "Short Half BFloat16 Bits16 UInt16",
    4: "Int Float ComplexHalf QInt32 UInt32",
    8: "Long Double ComplexFloat UInt64",
    16: "ComplexDouble",
}
"""c10::ScalarType, as ``dtype`` of a collective names it."""
C_TYPES = {
    1: "bool|char|signed char|unsigned char|c10::Float8_e4m3fn|c10::Float8_e5m2fnuz|c10::Float8_e8m0fnu|c10::qint8|"
    "c10::quint8|c10::quint4x2|c10::bits8|c10::bits1x8|c10::Float4_e2m1fn_x2",
    2: "short|short int|unsigned short|short unsigned int|c10::Half|c10::BFloat16|c10::bits16",
    4: "int|unsigned int|float|c10::complex<c10::Half>|c10::qint32",
    8: "long|long int|long long|unsigned long|long unsigned int|unsigned long long|double|c10::complex<float>",
    16: "c10::complex<double>",
}
"""As ``Input type`` of an operator names them."""


def test_bytes_of_every_type() -> None:
    expected = {
        name: size for types in (PYTHON_TYPES, ENUM_TYPES) for size, names in types.items() for name in names.split()
    }
    expected |= {f"torch.{name}": size for size, names in PYTHON_TYPES.items() for name in names.split()}
    expected |= {name: size for size, names in C_TYPES.items() for name in names.split("|")}
    assert {dtype: element_bytes(dtype) for dtype in expected} == expected and len(expected) > 150
    assert element_bytes("TensorList") is None and element_bytes("") is None


def test_factors() -> None:
    assert bus_factor("all_reduce", 8) == 1.75 and bus_factor("all_gather", 8) == 0.875
    assert (
        bus_factor("broadcast", 8) == 1
        and bus_factor("all_to_allv", 8) is None
        and bus_factor("all_reduce", -1) is None
    )


def test_one_worker_claims_nothing() -> None:
    parts = synthetic()[:1]
    assert set(findings(parts)) == {"one_worker", "communication_unsplit"}
    row = workers_of(parts)["rank0"]
    assert (row["wait_ns"], row["transfer_ns"], row["matched"]) == (None, None, None)
    assert all(row["bus_bandwidth"] is None for row in table_of(parts, "operations"))
    assert "waiting" not in view_of(parts).payloads


def test_a_trace_beside_the_ranks_is_no_rank() -> None:
    ranks, stranger = synthetic(), parts_of({"bert": trace().step(1, 0, 900).op("aten::mm", 0, 500).table()})
    with_it = [ranks[0], *stranger, *ranks[1:]]
    assert workers_of(with_it) == workers_of(ranks)
    assert findings(with_it) == findings(ranks) | {"no_rank": {}}
    assert {row["process"] for row in table_of(with_it, "devices")} == {
        row["process"] for row in table_of(ranks, "devices")
    }
    assert set(findings([ranks[0], *stranger])) == {"one_worker", "communication_unsplit", "no_rank"}


def again(parts: Sequence[Part], later_s: int, **facts: Any) -> list[Part]:
    """The same profiles under names that sort last, recorded so much later."""
    moved = []
    for part in parts:
        base = part.facts["distributed.base_time_ns"]
        assert isinstance(base, int)
        stated = {**part.facts, "distributed.base_time_ns": base + later_s * 10**9, **facts}
        moved.append(replace(part, worker=f"z{part.worker}", facts=stated))
    return moved


def test_workers_of_one_rank_are_not_compared() -> None:
    ranks = synthetic()
    copied = [*ranks, *again(ranks[1:2], 0)]
    assert workers_of(copied) == workers_of(ranks)
    assert findings(copied) == findings(ranks) | {"same_rank": {}}
    (text,) = (notice.text for notice in notices_of(copied) if notice.rule == "same_rank")
    assert text == "Ignored (another worker reports the same rank): zrank1."


def test_ranks_of_another_job_are_not_compared() -> None:
    ranks = synthetic()
    for other in (
        again(ranks[:3], 0, **{"distributed.world_size": 8}),
        again(ranks[:1], 0, **{"distributed.world_size": 1}),
        [
            replace(part, worker=f"{i}{part.worker}")
            for i in range(9)
            for part in again(ranks[:1], 0, **{"distributed.world_size": 1})
        ],
    ):
        assert workers_of([*other, *ranks]) == workers_of(ranks)
        assert findings([*other, *ranks]) == findings(ranks) | {"other_world_size": {}}
    unknown = again(ranks[2:3], 0, **{"distributed.rank": None, "distributed.world_size": None})
    assert workers_of([*ranks, *unknown]) == workers_of(ranks), "all ranks are loaded"
    assert findings([*ranks, *unknown]) == findings(ranks) | {"no_rank": {}}
    assert (
        len(
            workers_of([*ranks[:3], *again(ranks[3:], 0, **{"distributed.rank": None, "distributed.world_size": None})])
        )
        == 4
    )


def test_two_launches_in_one_span_share_no_collective() -> None:
    ranks = synthetic()
    launches = [*again(ranks, 100), *ranks[:3]]
    assert workers_of(launches) == workers_of(again(ranks, 100)), "the launch of most workers counts"
    assert findings(launches) == findings(again(ranks, 100)) | {"other_time": {}}


@pytest.mark.parametrize("later_s", [9, 11])
def test_launches_of_workers_whose_rank_is_not_known(later_s: int) -> None:
    """Recordings up to 10 s apart may be of one job: clocks of hosts differ."""
    unknown = {"distributed.rank": None, "distributed.world_size": None}
    ranks = [replace(part, facts=part.facts | unknown) for part in synthetic()]
    both = [*ranks, *again(ranks, later_s)]
    assert (len(workers_of(both)) == 4) == ("other_time" in findings(both)) == (later_s == 11)


def test_distinct_ranks_are_compared_whatever_their_clocks_show() -> None:
    ranks = synthetic()
    assert findings([*ranks[:3], *again(ranks[3:], 100)]).keys() & {"same_rank", "other_time"} == set()


@pytest.mark.parametrize(
    ("file_process", "stated", "node"),
    [
        ("n1_77", {}, "n1"),
        ("n1_3", {}, "n1"),
        ("n1_78", {}, ""),
        ("worker3_epoch_12", {}, ""),
        ("n1_77", {"host_name": "n2"}, "n2"),
        (None, {}, ""),
    ],
)
def test_the_host_in_a_file_name_is_checked(file_process: str | None, stated: dict[str, str], node: str) -> None:
    """The number behind it is the process (77) or the rank (3)."""
    builder = trace().meta(distributedInfo={"rank": 3, "world_size": 4}, **stated)
    if file_process:
        builder.meta(file_process=file_process)
    builder.event("cpu_op", "aten::mm", 0, 5, 77, 1)
    (part,) = parts_of({"rank3": builder.table()})
    assert [row["node"] for row in part.frames["devices"].data.to_pylist()] == [node]


def test_means_are_over_calls() -> None:
    rows = [row for row in table_of(synthetic(), "operations") if row["calls"] > 1]
    assert rows
    for row in rows:
        assert row["mean_comm_bytes"] * row["calls"] == pytest.approx(row["comm_bytes"])
        assert row["mean_latency_ns"] * row["calls"] == pytest.approx(row["latency_ns"])
        assert row["mean_transfer_ns"] * row["matched"] == pytest.approx(row["transfer_ns"])


def test_where_nothing_matches_no_share_waits() -> None:
    parts = [part_of("rank0", [call("all_reduce", 0, 30)], 4), part_of("rank1", [call("broadcast", 50, 30)], 4)]
    headline = view_of(parts).payloads["headline"]
    assert isinstance(headline, Figures)
    assert {figure.metric.key: figure.value for figure in headline.figures}["wait_share"] is None


# Real traces


def real(folder: str) -> list[Part]:
    files = sorted((SHARED / "data" / folder).glob("*.json*"))
    return parts_of({f.name.split(".")[0]: loaded(str(f.relative_to(SHARED.parent))) for f in files})


@needs_shared
def test_gloo_recording_of_two_ranks() -> None:
    parts = real("torch213/ddp_gloo2")
    rows = workers_of(parts)
    assert {(row["calls"], row["matched"], row["unmatched"]) for row in rows.values()} == {(18, 18, 0)}
    names = {row["collective"] for row in table_of(parts, "operations")}
    assert {"broadcast", "all_reduce", "all_gather", "all_to_all", "barrier", "send", "recv"} <= names
    groups = [(row["group"], row["group_description"]) for row in table_of(parts, "process_groups")]
    assert groups == [("0", "default_pg"), ("1", "my_subgroup")]


@needs_shared
def test_two_of_128_ranks() -> None:
    parts = real("hta/trace_filter")
    assert findings(parts)["bounds"] == {"workers": 2, "world_size": 128, "bounded": 12, "matched": 12}
    assert {(row["calls"], row["matched"]) for row in workers_of(parts).values()} == {(10, 6)}


@needs_shared
def test_one_of_eight_mi300() -> None:
    name = "tracelens/mi300/resnet_act_checkpoint.json.gz"
    parts = parts_of({"rank0": loaded(f"shared/data/{name}")})
    calls = {(row["collective"], row["dtype"]): row["calls"] for row in table_of(parts, "operations")}
    known = {("broadcast", "BFloat16"): 3, ("broadcast", "Long"): 3, ("all_reduce", "BFloat16"): 6}
    # Five kernels were launched before the recording began: nothing says what they are.
    assert calls == {("ncclDevKernel_Generic", ""): 5} | known
    (device,) = table_of(parts, "devices")
    assert (device["device_name"], device["process"]) == ("AMD Instinct MI300X", "rank 0")
    assert set(findings(parts)) == {"one_worker", "communication_unsplit"}


FACTORS = {
    "allreduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n, "all_gather": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n, "gather": lambda n: (n - 1) / n, "scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0, "reduce": lambda n: 1.0, "send": lambda n: 1.0, "recv": lambda n: 1.0,
    "all_to_allv": lambda n: None, "barrier": lambda n: None,
}  # fmt: skip
"""The table of spec/analyses.md 2.11, written down once more."""


@pytest.mark.parametrize(
    ("name", "inside", "outside", "size"),
    [
        ("allreduce", 100, 100, 100),
        ("reduce_scatter", 800, 100, 800),  # the total input
        ("all_gather", 100, 800, 800),  # the total output
        ("all_to_all", 800, 800, 800),
        ("gather", 100, 800, 800),
        ("scatter", 800, 100, 800),
        ("broadcast", 100, 100, 100),
        ("reduce", 100, 100, 100),
        ("send", 100, 100, 100),
        ("recv", 0, 100, 100),
        ("all_to_allv", 300, 500, 300),
        ("barrier", 1, 1, 0),
    ],
)
def test_size_and_factor_of_every_collective(name: str, inside: int, outside: int, size: int) -> None:
    args = {"In msg nelems": inside, "Out msg nelems": outside, "Group size": 8, "dtype": "BFloat16"}
    builder = trace().step(0, 0, 100).op("record_param_comms", 0, 9, 1, **{"Collective name": name, **args})
    builder.on_device(kernel("ncclDevKernel_Generic", 20, 10), ext=1)
    (row,) = table_of(parts_of({"rank0": builder.table()}), "collectives")
    factor = FACTORS[name](8)
    assert (row["comm_bytes"], row["dur_ns"]) == (2 * size, 20_000)
    assert row["bus_factor"] == (None if factor is None else pytest.approx(factor))


def test_numbers_that_are_no_message_are_unknown() -> None:
    for shape in ([1 << 62], [1 << 40, 1 << 40], [-5]):
        parts = parts_of(
            {"rank0": trace().step(0, 0, 100).op("gloo:all_reduce", 0, 9, 1, shapes=[shape], **FLOAT).table()}
        )
        (row,) = table_of(parts, "collectives")
        assert (row["elements"], row["comm_bytes"]) == (None, None)


def test_a_number_beyond_a_column_is_empty() -> None:
    made = table({"bytes": pa.int64()}, [{"bytes": value} for value in (2**63 - 1, 2**63, -(2**63) - 1, None)])
    assert made["bytes"].to_pylist() == [2**63 - 1, None, None, None]


def test_an_empty_message_is_one_of_no_bytes() -> None:
    parts = parts_of({"rank0": trace().step(0, 0, 100).op("gloo:all_reduce", 0, 9, 1, shapes=[[0]], **FLOAT).table()})
    (row,) = table_of(parts, "collectives")
    assert (row["elements"], row["comm_bytes"]) == (0, 0)


FLOAT: dict[str, Any] = {"Input type": ["float"]}


@needs_shared
@pytest.mark.parametrize(
    ("name", "count"),
    [("hta/nccl_parser_config/nccl_data.json.gz", 21), ("tracelens/mi300/resnet_act_checkpoint.json.gz", 12)],
)
def test_single_rank_follows_the_definitions(name: str, count: int) -> None:
    """Bytes, factor and duration of every collective that states them, from the file itself.

    NCCL copies the statement onto the kernel; RCCL does not: there the kernel's launch lies inside the operator's time.
    """
    sizes = {"Float": 4, "Long": 8, "BFloat16": 2}
    events = json.loads(gzip.decompress((SHARED / "data" / name).read_bytes()))["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel" and "nccl" in e["name"].lower()]
    stating = [e for e in events if "Collective name" in e.get("args", {}) and e.get("cat") == "cpu_op"]
    launches = {
        e["args"]["correlation"]: e for e in events if "correlation" in e.get("args", {}) and "runtime" in e["cat"]
    }
    expected = []
    for event in kernels:
        args = event["args"]
        launch = launches.get(args.get("correlation"))
        if "Collective name" not in args and launch is not None:
            around = [
                e["args"] for e in stating
                if e["tid"] == launch["tid"] and e["ts"] <= launch["ts"] <= e["ts"] + e["dur"]
            ]  # fmt: skip
            args = around[-1] if around else args
        if "Collective name" in args:
            factor = FACTORS[args["Collective name"]](args["Group size"])
            moved = args["In msg nelems"] * sizes[args["dtype"]]
            collective = args["Collective name"].replace("allreduce", "all_reduce")
            expected.append((collective, moved, round(factor, 9), round(event["dur"] * 1000)))
    rows = table_of(parts_of({"rank0": loaded(f"shared/data/{name}")}), "collectives")
    stated = [row for row in rows if row["bus_factor"] is not None]
    found = [(row["collective"], row["comm_bytes"], round(row["bus_factor"], 9), row["dur_ns"]) for row in stated]
    assert sorted(found) == sorted(expected) and len(expected) == count
    assert all(row["algorithm_bandwidth"] is None and row["wait_ns"] is None for row in rows)


def test_calls_outside_of_steps_are_counted_and_are_no_share_of_them() -> None:
    """Rank 0 waits 20 ns in a step of 100 ns, and 5000 ns before it."""
    first = [call("barrier", -9000, 5010, sequence=0), call("all_reduce", 10, 30, step="0", sequence=1)]
    second = [call("barrier", -3990, 10, sequence=0), call("all_reduce", 30, 10, step="0", sequence=1)]
    parts = [part_of("rank0", first, 2, step_ns=100), part_of("rank1", second, 2, step_ns=100)]
    rows, (step, _) = workers_of(parts), table_of(parts, "steps")
    assert (rows["rank0"]["wait_ns"], rows["rank0"]["latency_ns"], step["wait_ns"]) == (5020, 5040, 20)
    view = view_of(parts)
    headline, bars = view.payloads["headline"], view.payloads["waiting"]
    assert isinstance(headline, Figures) and isinstance(bars, Series)
    assert [figure.value for figure in headline.figures if figure.metric.key == "wait_share"] == [0.1]
    assert [line.values for line in bars.lines] == [[10, 10], [20, 0]]
    # A call may last beyond its step: all of the step was waited, no more.
    longer = [dataclasses.replace(first[1], dur_ns=330)], [dataclasses.replace(second[1], start_ns=330)]
    parts = [part_of(f"rank{w}", calls, 2, step_ns=100) for w, calls in enumerate(longer)]
    headline = view_of(parts).payloads["headline"]
    assert isinstance(headline, Figures)
    assert [figure.value for figure in headline.figures if figure.metric.key == "wait_share"] == [0.5]
