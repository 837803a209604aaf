"""Share of device time that each source attributes, in recorded traces: a table of expected numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tb_plugin.analysis.graphs.coverage import Tie, coverage
from tb_plugin.analysis.graphs.replays import replays_of
from tb_plugin.model.trace.schema import DEVICE_WORK, of_kind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import model
from tests.captured import with_other
from tests.conftest import SHARED
from tests.samples import REPO

COLUMNS = (Tie.LAUNCHED, Tie.ANNOTATION, Tie.CAPTURE, Tie.CAPTURE_TRACE, Tie.EAGER, Tie.GRAPH, Tie.NONE)
TABLE = Path(__file__).with_name("coverage.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(samples|shared)/([^`]+)`(?: with `([^`]+)`)? \| (.+) \|$", TABLE, re.M)


def shares(table: TraceTable) -> list[str]:
    """A row of the table without its name."""
    found = coverage(table, np.flatnonzero(of_kind(table.kind, *DEVICE_WORK)))
    parts = [found.before_ns, *(int(found.any[tie]) for tie in COLUMNS)]
    assert sum(parts[1:]) == found.total_ns
    return [str(len(replays_of(table))), *(f"{100 * part / found.total_ns:.1f}" for part in parts)]


@pytest.mark.parametrize(("root", "name", "beside", "told"), ROWS, ids=[row[1].partition(".")[0] for row in ROWS])
def test_the_table_says_what_the_traces_come_to(root: str, name: str, beside: str, told: str) -> None:
    folder = REPO / "samples" if root == "samples" else SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the shared data are not there")
    (path,) = folder.glob(name)
    table = model(path)
    if beside:
        (other,) = path.parent.glob(beside)
        table = with_other(table, model(other), beside)
    row = shares(table)
    assert told.split(" | ") == row
    if name.startswith("tracelens/sglang"):
        assert sum(map(float, row[2:8])) >= 90 and float(row[7]) >= 90


def test_every_trace_with_a_graph_is_in_the_table() -> None:
    assert len(ROWS) == len({row[:3] for row in ROWS}) >= 12
    if SHARED.is_dir():
        listed = {name for root, name, *_ in ROWS if root == "shared"}
        assert {
            path.relative_to(SHARED / "data").as_posix() for path in (SHARED / "data").glob("tracelens/sglang*/*")
        } <= listed
