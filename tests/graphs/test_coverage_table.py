"""Share of replayed device time that each source attributes, in recorded traces: a table of expected numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tb_plugin.analysis.graphs.origins import Way
from tb_plugin.model.trace.table import TraceTable
from tests.builders import model, part
from tests.captured import with_other
from tests.conftest import SHARED
from tests.samples import REPO

TABLE = Path(__file__).with_name("coverage.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(samples|shared)/([^`]+)`(?: with `([^`]+)`)? \| (.+) \|$", TABLE, re.M)


def shares(table: TraceTable) -> list[str]:
    """A row of the table without its name."""
    facts = part(table, "graphs").facts
    times = [facts["graphs.untied_ns" if way == Way.NONE else f"graphs.by_{way.name.lower()}_ns"] for way in Way]
    assert sum(times) == facts["graphs.device_ns"]
    return [str(facts["graphs.replays"]), *(f"{100 * time / facts['graphs.device_ns']:.1f}" for time in times)]


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
    assert told.split(" | ") == shares(table)


def test_every_trace_with_a_graph_is_in_the_table() -> None:
    assert len(ROWS) == len({row[:3] for row in ROWS}) >= 12
    if SHARED.is_dir():
        listed = {name for root, name, *_ in ROWS if root == "shared"}
        found = {path.relative_to(SHARED / "data").as_posix() for path in (SHARED / "data").glob("tracelens/sglang*/*")}
        assert found <= listed
