"""The tables of SQL: sums equal the numbers of the views, and each column is documented."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tb_plugin
from tb_plugin import registry
from tb_plugin.analysis.base import Params
from tb_plugin.service.answers.rank_rows import rank_table
from tb_plugin.sql import statements
from tb_plugin.sql.tables import TABLES, table_of

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
TRACES = {
    "resnet_cpu": {"span": "1"},
    "synthetic_gpu": {},
    "synthetic_ddp": {"worker": "rank0"},
    "transformer_cpu": {},
    "synthetic_serving": {},
    "npu_training": {},
}


def names_of(table):
    return [column.name for column in TABLES[table].columns]


def opened(name):
    profile = tb_plugin.open(str(SAMPLES / name), **TRACES[name])
    if not isinstance(profile, tb_plugin.api.OpenProfile):
        profile = profile.worker(profile.workers[0])
    return profile


@pytest.fixture(scope="module", params=[name for name in TRACES if any((SAMPLES / name).glob("*.json*"))])
def profile(request):
    return opened(request.param)


def rows(profile, query):
    return profile.sql(query).to_pylist()


def same(profile, query, frame, columns, key="name"):
    """Whether the rows of a query equal those of a view's table: ``columns`` names the view's column by the query's."""
    found = {row["key"]: {name: row[name] or 0 for name in columns} for row in rows(profile, query)}
    frame = frame[frame[key] != "(no operator)"]
    listed = frame[[key, *columns.values()]].to_dict("records")
    assert found == {row[key]: {name: row[own] for name, own in columns.items()} for row in listed}


def test_operators(profile):
    query = """select name as key, count(*) as calls, sum(host_self_ns) as host_self, sum(runtime_ns) as runtime,
        sum(host_total_ns) filter (is_outermost) as host_total from operators group by name"""
    columns = {"calls": "calls", "host_self": "host_self_ns", "host_total": "host_total_ns"}
    same(profile, query, profile.operators(), columns)


def test_device_time_of_operators(profile):
    frame = profile.operators()
    if not frame.device_self_ns.sum() or frame.replayed_calls.sum():
        pytest.skip("no device time, or work of replayed graphs, which no recorded call launched")
    query = """select name as key, sum(device_self_ns) as device_self,
        sum(device_total_ns) filter (is_outermost) as device_total from operators group by name"""
    same(profile, query, frame, {"device_self": "device_self_ns", "device_total": "device_total_ns"})


def test_kernels(profile):
    query = (
        "select name as key, count(*) as calls, sum(dur_ns) as total, max(dur_ns) as longest from kernels group by name"
    )
    same(profile, query, profile.kernels(), {"calls": "calls", "total": "total_ns", "longest": "max_ns"})


def test_copies(profile):
    frame = profile.table("kernels", "copies")
    found = rows(profile, "select count(*) as calls, sum(dur_ns) as total, sum(bytes) as bytes from copies")[0]
    assert found["calls"] == frame.calls.sum() and (found["total"] or 0) == frame.total_ns.sum()
    assert (found["bytes"] or 0) == (frame.bytes.fillna(0).sum() if "bytes" in frame else 0)


def test_runtime_calls(profile):
    query = """select name as key, count(*) as calls, sum(self_ns) as self, sum(launched) as launched
        from runtime_calls group by name"""
    same(profile, query, profile.runtime_calls(), {"calls": "calls", "self": "host_self_ns", "launched": "launched"})


def test_phases(profile):
    frame = profile.phases()
    query = """select phase as key, count(*) as calls, sum(dur_ns) filter (is_outermost) as host_total from phases
        group by phase"""
    same(profile, query, frame, {"calls": "calls", "host_total": "host_total_ns"}, "phase")
    # Device time counts once per phase, so sums over calls are larger if calls share work.
    found = rows(profile, "select phase, count(*) as calls, sum(device_ns) as device_ns, sum(idle_ns) as idle_ns, "
        "sum(backward_device_ns) as backward_ns from phases group by phase")  # fmt: skip
    by_phase = {row["phase"]: row for row in found}
    for row in frame.to_dict("records"):
        mine = by_phase[row["phase"]]
        for key in ("device_ns", "idle_ns", "backward_ns"):
            if f"phase_{key}" in row:
                assert mine[key] >= row[f"phase_{key}"] or key == "idle_ns"
                assert mine["calls"] > 1 or mine[key] == row[f"phase_{key}"], (row["phase"], key)


def test_steps(profile):
    frame = profile.sql("select * from steps").to_pandas()
    parts = [name for name in names_of("steps") if name.endswith("_ns") and "start" not in name]
    parts = [name for name in parts if name not in ("dur_ns", "host_dur_ns")]
    assert (frame[parts].sum(axis=1) == frame.dur_ns).all()
    facts = profile.facts
    assert len(frame) == facts["overview.steps"]
    assert round(frame.dur_ns.mean()) == round(facts["overview.step_time_mean_ns"])


def test_events(profile):
    frame = profile.events()
    found = profile.sql("select name, start_ns, dur_ns, self_ns, kind from events order by event").to_pandas()
    assert found.name.tolist() == frame.name.tolist()
    assert found.kind.tolist() == frame.kind.astype(str).tolist()
    for key in ("start_ns", "dur_ns", "self_ns"):
        assert (found[key].to_numpy() == frame[key].to_numpy()).all()


def test_each_launch_is_of_its_work(profile):
    query = """select l.name as launched, e.name, l.launch_event, e.launch_event as launch, l.call_ns, c.dur_ns
        from launches l join events e on l.event = e.event join events c on l.launch_event = c.event"""
    found = profile.sql(query).to_pandas()
    assert (found.launched == found.name).all() and (found.launch_event == found.launch).all()
    assert (found.call_ns == found.dur_ns).all()


def test_each_table_has_its_columns(profile):
    for name in TABLES:
        found = table_of(profile._made(), name)
        assert found is None or set(found.column_names) <= set(names_of(name)), name
    for table in TABLES.values():
        assert len(set(names_of(table.name))) == len(table.columns), table.name
        for column in table.columns:
            assert column.meaning and "\n" not in column.meaning, (table.name, column.name)
            assert column.unit in ("", "ns", "bytes", "0..1"), (table.name, column.name)
            assert column.unit == "ns" or not column.name.endswith("_ns"), (table.name, column.name)


def test_steps_of_rows_are_those_of_the_selection():
    from tb_plugin.analysis.selection import select_rows, steps_of_rows

    trace = opened("synthetic_gpu")._made()
    of = steps_of_rows(trace)
    for number, label in enumerate(trace.steps.label):
        assert np.array_equal(of[:-1] == number, select_rows(trace, (label,)).rows)


def test_findings(profile):
    found = rows(profile, "select rule, saving_low_ns, saving_high_ns from findings")
    listed = [(each.rule, each.saving_low_ns, each.saving_high_ns) for each in profile.findings]
    assert set(listed) >= {(row["rule"], row["saving_low_ns"], row["saving_high_ns"]) for row in found}


def test_snapshots():
    profile = tb_plugin.open(str(SAMPLES / "synthetic_memory"), worker="leaking")
    frame = profile.memory_events()
    found = rows(profile, "select action, count(*) as n, sum(bytes) as bytes from memory_events group by action")
    sizes = frame.groupby("memory_action").block_size_bytes
    assert {row["action"]: (row["n"], row["bytes"]) for row in found} == {
        action: (len(each), each.sum()) for action, each in sizes
    }
    blocks = rows(profile, "select count(*) as n, sum(bytes) as bytes from blocks")[0]
    assert blocks == {"n": len(profile.memory_blocks()), "bytes": profile.memory_blocks().block_size_bytes.sum()}
    with pytest.raises(tb_plugin.errors.BadRequest, match="no table kernels"):
        profile.sql("select * from kernels")


def test_ranks_stand_in_one_table():
    job = tb_plugin.open(str(SAMPLES / "synthetic_ddp"))
    found = job.sql("select rank, sum(dur_ns) as total from kernels group by rank order by rank").to_pylist()
    assert [row["rank"] for row in found] == job.workers
    for row in found:
        assert row["total"] == job.worker(row["rank"]).kernels().total_ns.sum()


COMPARED = (
    "step_total_ns", "compute_ns", "compute_alone_ns", "overlap_ns", "exposed_communication_ns", "step_other_ns",
    "latency_ns", "wait_ns", "transfer_ns", "caused_wait_ns", "lost_ns", "held_up_by", "calls", "matched", "unmatched",
    "arrived_last",
)  # fmt: skip


@pytest.mark.parametrize("name", ["synthetic_ddp", "ddp_gloo8", "synthetic_groups"])
def test_ranks_have_the_numbers_of_the_page_ranks(name):
    job = tb_plugin.open(str(SAMPLES / name))
    found = {row["rank"]: row for row in job.sql("select * from ranks").to_pylist()}
    frame = job.table("workers")
    assert list(found) == frame.worker.tolist() and len(found) > 1
    for row in frame.to_dict("records"):
        for key in COMPARED:
            value = row[key] if row[key] == row[key] else None
            assert found[row["worker"]][key] == value, (row["worker"], key)
    steps = job.table("steps").groupby("worker").size()
    assert {rank: row["steps"] for rank, row in found.items()} == steps.to_dict()
    query = "select rank, device from ranks join (select distinct rank from kernels) using (rank)"
    assert job.sql(query).num_rows == (0 if name == "ddp_gloo8" else len(found))


def test_the_table_of_ranks_of_one_profile_has_one_row(profile):
    (row,) = profile.sql("select * from ranks").to_pylist()
    assert row["rank"] == profile.worker and row["left_out"] is None and row["wait_ns"] is None
    assert row["steps"] == profile.facts["overview.steps"]
    total = profile.sql("select sum(dur_ns) as total from steps").to_pylist()[0]["total"]
    assert row["step_total_ns"] == total


def test_profiles_that_are_no_ranks_have_a_reason():
    job = tb_plugin.open(str(SAMPLES / "synthetic_ddp"))
    view = registry.analysis_by_id("distributed")
    parts = [view.part(job.worker(f"rank{rank}")._made(), Params()) for rank in (0, 1, 1)]
    found = rank_table(list(zip(("rank0", "rank1", "rank1 copy"), parts, strict=True))).to_pylist()
    reasons = [(row["rank"], row["calls"] is None, row["left_out"]) for row in found]
    assert reasons == [("rank0", False, None), ("rank1", False, None), ("rank1 copy", True, "same_rank")]


TABLE_VIEWS = ("operators", "kernels", "roofline", "launches", "modules", "overview", "memory")
# Tables whose queries hold for whole traces only.
OF_ALL_STEPS = {"modules", "memory_operators_outermost"}


@pytest.mark.parametrize("steps", ["all", "one"])
def test_queries_reproduce_the_tables_of_views(profile, steps):
    trace = profile._made()
    chosen = None if steps == "all" else trace.steps.label[-1:]
    for view in TABLE_VIEWS:
        frames = registry.analysis_by_id(view).part(trace, Params(steps=chosen)).frames
        assert steps == "all" or not any(frames[name].sql for name in OF_ALL_STEPS & frames.keys())
        for name, frame in frames.items():
            if frame.sql:
                reproduces(profile, frame, name)


def test_each_statement_is_of_a_table():
    found = set()
    for name in ("resnet_cpu", "synthetic_gpu"):
        trace = opened(name)._made()
        for view in TABLE_VIEWS:
            frames = registry.analysis_by_id(view).part(trace, Params()).frames
            found |= {name for name, frame in frames.items() if frame.sql and frame.data.num_rows}
    assert found == statements.TABLES


def reproduces(profile, frame, name):
    found = profile.sql(frame.sql)
    if {"replayed_calls"} <= set(frame.data.column_names) and sum(frame.data["replayed_calls"].to_pylist()):
        return  # replayed graphs give work to calls that were not recorded
    keys = list(frame.row_key)
    shared = [key for key in found.column_names if key in frame.data.column_names and key not in keys]
    assert set(keys) - {"direction"} <= set(found.column_names) and len(shared) >= 3, name
    keys = [key for key in keys if key in found.column_names]
    assert rows_by(found, keys, shared) == rows_by(frame.data, keys, shared), name


def rows_by(table, keys, shared):
    rows = {}
    for row in table.select([*keys, *shared]).to_pylist():
        if row.get("name") != "(no operator)":
            key = tuple(None if row[key] in ("", "(no operator)") else row[key] for key in keys)
            rows[key] = {
                name: round(value or 0, 3) if not isinstance(value, str) else value
                for name, value in row.items()
                if name in shared
            }
    return rows


def test_critical_path(profile):
    query = """select name as key, sum(dur_ns) as critical from critical_path
        where kind = 'operator' and name is not null group by name"""
    events = (
        tb_plugin.registry.analysis_by_id("critical_path").part(profile._made(), Params()).frames["critical_events"]
    )
    listed = {
        row["name"]: row["critical_ns"] for row in events.data.to_pylist() if row["critical_kind"] == "CPU operators"
    }
    assert {row["key"]: row["critical"] for row in rows(profile, query)} == listed
    step_ns = "select sum(dur_ns) as total from {}"
    assert rows(profile, step_ns.format("critical_path")) == rows(profile, step_ns.format("steps"))
    # Work on the critical path has no slack.
    late = """select count(*) as late from critical_path join slack using (event)
        where critical_path.kind in ('compute', 'communication', 'copy') and slack_ns > 0
        and slack.start_ns >= critical_path.start_ns"""
    assert rows(profile, late) == [{"late": 0}]
