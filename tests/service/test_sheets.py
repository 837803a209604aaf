"""Whole tables for other programs: the same bytes as a csv writer row by row, no row an object, safe in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from tb_plugin.analysis.base import Params, rows_of
from tb_plugin.payloads import Column, Metric
from tb_plugin.service.answers import table_export
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tests.conftest import SAMPLES
from tests.service.fakes import catalog_of

HOSTILE = [
    "plain", "", None, "=1+1", "+A1", "-2", "@SUM(A1)", "\tx", "\rx", "a,b", 'say "hi"', "two\nlines", "\r\n", " lead",
    "é漢🙂", "'quoted'", '"', "a=b", "\x00", "nan", "true",
]  # fmt: skip


def column(key, unit="text"):
    return Column(Metric(key, key.title(), unit, "Is.", "whole trace"))


def by_row(columns, data):
    """What a csv writer makes of rows of objects: the definition."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    units = ("text", "code", "count", "number", "bool")
    writer.writerow(
        [c.metric.title if c.metric.unit in units else f"{c.metric.title} [{c.metric.unit}]" for c in columns]
    )
    for row in rows_of(data, [column.metric.key for column in columns]):
        cells = row.values()
        writer.writerow(
            [f"'{v}" if isinstance(v, str) and v.startswith(("=", "+", "-", "@", "\t", "\r")) else v for v in cells]
        )
    return text.getvalue().encode()


@pytest.fixture(scope="module")
def every_kind():
    n = len(HOSTILE)
    floats = [None, 0.1, 1.0, -0.0, 1e-7, 1e16, 1e22, float("nan"), float("inf"), 2 / 3, 5e-324]
    return pa.table(
        {
            "text": pa.array(HOSTILE),
            "large": pa.array(HOSTILE[::-1], pa.large_string()),
            "flag": pa.array(([True, False, None] * n)[:n]),
            "whole": pa.array(([0, -1, None, 2**63 - 1, -(2**63)] * n)[:n], pa.int64()),
            "small": pa.array(([7, None] * n)[:n], pa.int32()),
            "ratio": pa.array((floats * n)[:n]),
            "maybe": pa.array((["true", "false", "unknown", None] * n)[:n]).dictionary_encode(),
            "sure": pa.array((["true", "false", None] * n)[:n]).dictionary_encode(),
            "none": pa.nulls(n, pa.int64()),
            "list": pa.array(([[1, 2], None, []] * n)[:n], pa.list_(pa.int64())),
        }
    )


UNITS = {"whole": "ns", "small": "bytes", "ratio": "ratio"}


@pytest.mark.parametrize("chunks", [1, 3])
@pytest.mark.parametrize("rows_at_once", [2, 16_384])
@pytest.mark.parametrize("order", ["as it is", "some", "turned round", "none"])
def test_csv_is_byte_by_byte_what_a_writer_of_rows_makes(monkeypatch, every_kind, chunks, rows_at_once, order):
    monkeypatch.setattr(table_export, "ROWS", rows_at_once)
    columns = [column(key, UNITS.get(key, "text")) for key in every_kind.column_names]
    # A column of a table from several workers comes in chunks, each with a dictionary of its own.
    data = pa.concat_tables([every_kind.slice(3, 9)] * (chunks - 1) + [every_kind]) if chunks > 1 else every_kind
    rows = {
        "as it is": np.arange(data.num_rows),
        "some": np.arange(4, data.num_rows - 3),
        "turned round": np.arange(data.num_rows)[::-1],
        "none": np.arange(0),
    }[order]
    assert table_export.as_csv(columns, data, rows) == by_row(columns, data.take(pa.array(rows)))
    for one in columns:
        assert table_export.as_csv([one], data, rows) == by_row([one], data.take(pa.array(rows)))
    read = pa.ipc.open_stream(table_export.as_arrow(data, rows)).read_all()
    assert str(read.to_pylist()) == str(data.take(pa.array(rows)).to_pylist())


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    workspace = Workspace(
        catalog_of(SAMPLES / "synthetic_ddp"), InlineWorkers(), FileStore(tmp_path_factory.mktemp("cache"))
    )
    workspace.catalog.scan()
    yield workspace
    workspace.close()


QUESTIONS = [
    {}, {"sort": "wait_ns"}, {"sort": "collective", "descending": False}, {"search": "reduce"},
    {"where": (("worker", "rank1"),)}, {"search": "no such thing"},
]  # fmt: skip
ASKED = [
    *(("collectives", question) for question in QUESTIONS),
    *((table, {}) for table in ("workers", "process_groups", "clocks", "stragglers", "bandwidths")),
]


@pytest.mark.parametrize(("table", "question"), ASKED, ids=str)
def test_tables_of_workers_hold_what_their_page_shows(workspace, table, question):
    place = Place()
    page = json.loads(workspace.view(place, "distributed", Params(table=table, limit=None, **question)))
    keys = [each["metric"]["key"] for each in page["columns"]]
    written = workspace.csv(place, "distributed", Params(table=table, **question)).decode()
    rows = list(csv.reader(io.StringIO(written, newline="")))
    assert len(rows) == 1 + page["matched_rows"] == 1 + len(page["rows"])
    shown = [["" if row[key] is None else str(row[key]) for key in keys] for row in page["rows"]]
    assert [[cell.removeprefix("'") for cell in row] for row in rows[1:]] == shown
    read = pa.ipc.open_stream(workspace.arrow(place, "distributed", Params(table=table, **question))).read_all()
    assert rows_of(read, read.column_names) == page["rows"] and read.column_names == keys


def test_no_row_is_an_object():
    n = 100_000
    data = pa.table({f"c{i}": pa.array(np.arange(n) * i) for i in range(12)} | {"name": pa.array(["all reduce"] * n)})
    columns = [column(key) for key in data.column_names]
    tracemalloc.start()
    try:
        written = table_export.as_csv(columns, data, np.arange(n))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert written.count(b"\r\n") == n + 1
    assert peak < 2.5 * len(written)  # the answer, which grows, and little else
