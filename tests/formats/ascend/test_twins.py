"""One training as text files and as databases: every page says the same, but for what one of them does not have."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.formats.ascend.folders import Files, folder, raw_of
from tests.samples import OF_TRACES, OURS, SAMPLES, made

Json = dict[str, Any]
TEXT, DATABASE = "synthetic_ascend", "synthetic_ascend_db"
ONLY_TEXT = {"api_statistic", "data_preprocess", "l2_cache", "op_statistic"}
LACKING = {"Step Id", "cube_utilization(%)", "Physic Stream Id", "Batch Id", "Subtask Id"}
"""Facts of kernels that databases do not have."""
BY_ROW = {"instances", "names", "hits", "range", "kernel_rows"}
"""Tables that list events: a database has the tasks of groups on their streams too."""
OTHERWISE = {"event", "lane", "device_name", "idle_host"}
"""Columns that say where an event stands, or what only a database knows."""


def sample(run: str, rank: str) -> TraceTable:
    (name,) = (each.name for each in OURS if each.name.startswith(f"{run}/rank_{rank}_"))
    found = made(name)
    assert isinstance(found, TraceTable)
    return found


@pytest.fixture(scope="module", params=["0", "1"])
def both(request: pytest.FixtureRequest) -> tuple[TraceTable, TraceTable]:
    return sample(TEXT, request.param), sample(DATABASE, request.param)


def alike(one: Any, other: Any) -> bool:
    """Within the rounding of the files: three decimals."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=0.0006)
    return str(one).casefold() == str(other).casefold()  # layers of calls are written in both ways


def differing(one: pa.Table, other: pa.Table) -> list[str]:
    """Names of columns that do not hold the same values, in the order of what each row says."""
    if one.num_rows != other.num_rows:
        return [f"{one.num_rows} and {other.num_rows} rows"]
    shared = [name for name in one.column_names if name not in OTHERWISE]
    assert set(one.column_names) == set(other.column_names)
    orders = [
        sorted(range(table.num_rows), key=lambda i: [str(table[name][i]).casefold() for name in words])
        for table in (one, other)
        for words in [[name for name in shared if pa.types.is_string(table[name].type)]]
    ]
    rows = [
        [table.select(shared).to_pylist()[i] for i in order] for table, order in zip((one, other), orders, strict=True)
    ]
    return [name for name in shared if not all(alike(a[name], b[name]) for a, b in zip(*rows, strict=True))]


def test_every_number_of_every_page(both: tuple[TraceTable, TraceTable]) -> None:
    text, database = both
    compared = 0
    for analysis in OF_TRACES:
        assert bool(analysis.missing(text)) == bool(analysis.missing(database)), analysis.id
        if analysis.missing(text):
            continue
        one, other = (analysis.part(trace, Params()) for trace in both)
        differ = {
            key for key in one.facts.keys() | other.facts.keys() if not alike(one.facts.get(key), other.facts.get(key))
        }
        assert differ <= {"trace.events"}, analysis.id
        assert one.frames.keys() - other.frames.keys() <= ONLY_TEXT and other.frames.keys() <= one.frames.keys()
        for key in (one.frames.keys() & other.frames.keys()) - BY_ROW:
            found = differing(one.frames[key].data, other.frames[key].data)
            assert found == [], (analysis.id, key)
            compared += one.frames[key].data.num_rows
        compared += len(one.facts)
    assert compared > 400


def test_what_a_database_has_beside(both: tuple[TraceTable, TraceTable]) -> None:
    """Rows of groups' tasks on streams, and nothing else that the text has not."""
    text, database = both
    kinds = [Counter(trace.kind.tolist()) for trace in both]
    more = {EventKind(kind).name for kind in kinds[1] if kinds[1][kind] != kinds[0][kind]}
    assert more == {"SYNC", "DEVICE_ANNOTATION"}
    assert not database.report.issues and database.report.complete
    assert database.origin_ns == text.origin_ns


def test_facts_of_kernels(both: tuple[TraceTable, TraceTable]) -> None:
    found: list[Counter[tuple[str, ...]]] = []
    for trace in both:
        kernels = (trace.kind == EventKind.KERNEL) & ~trace.is_collective
        facts: Counter[tuple[str, ...]] = Counter()
        for column in trace.others:
            for row, value in zip(column.row.tolist(), column.value.tolist(), strict=True):
                if kernels[row]:
                    said = trace.strings[value] if column.is_text else f"{float(value):.3f}"
                    facts[column.key, trace.strings[int(trace.name[row])], str(trace.start_ns[row]), said] += 1
        found.append(facts)
    text, database = found
    lacking = {key for key, *_ in text - database}
    assert lacking == LACKING
    assert sum((text & database).values()) > 500
    counted = {"Type", "Accelerator Core", "Input Shapes", "Wait Time(us)", "aic_mac_ratio", "aiv_mte2_time(us)"}
    assert counted <= {key for key, *_ in text & database}
    assert not counted & lacking


def test_settings_of_both(both: tuple[TraceTable, TraceTable]) -> None:
    text, database = (dict(trace.metadata) for trace in both)
    assert text.pop("export_type") == ["text"] and database.pop("export_type") == ["db"]
    database.pop("SCHEMA_VERSION"), database.pop("hostUid"), database.pop("hostName")
    assert json.loads(json.dumps(database)) == text


def joined(rank: str) -> dict[str, bytes]:
    """Both exports in one folder, as the newest versions leave them."""
    content: dict[str, bytes] = {}
    for run in (DATABASE, TEXT):
        (folder_,) = (SAMPLES / run).glob(f"rank_{rank}_*")
        content |= {name: folder(folder_).open(name).read() for name in folder(folder_).names()}
    return content


def test_of_text_and_database_in_one_folder_the_text_counts() -> None:
    raw, alone = raw_of(Files(joined("0"))), raw_of(folder(next((SAMPLES / TEXT).glob("rank_0_*"))))
    assert not raw.report.issues and raw.report.complete
    assert len(raw.start_ns) == len(alone.start_ns) and raw.report.events_loaded == alone.report.events_loaded
