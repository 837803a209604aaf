"""One key means one thing, everywhere: in the definitions, and in what is sent."""

from __future__ import annotations

import pytest

from tb_plugin import registry
from tb_plugin.analysis.base import Params
from tb_plugin.analysis.metrics import CHOSEN, SHARED, Metrics, define
from tb_plugin.model.trace.table import TraceTable
from tests.conftest import SAMPLE_FILES, sample
from tests.metrics import ALL, BY_VIEW


def test_a_key_that_is_defined_twice_is_refused() -> None:
    calls = define(CHOSEN, "count", {"turns": ("Turns", "How often it turned.")})
    again = define(CHOSEN, "ns", {"turns": ("Turns", "How long it turned.")})
    with pytest.raises(ValueError, match="Two definitions of one metric: turns"):
        Metrics(calls, again)
    with pytest.raises(ValueError, match="turns"):
        SHARED.adding(calls).adding(calls)
    with pytest.raises(ValueError, match="calls"):
        SHARED.adding(define(CHOSEN, "count", {"calls": ("Calls", "Other calls.")}))


def test_views_define_no_key_twice() -> None:
    owners: dict[str, list[str]] = {}
    for view, own in BY_VIEW.items():
        for key in own:
            owners.setdefault(key, []).append(view)
    assert {key: views for key, views in owners.items() if len(views) > 1} == {}
    assert len(ALL) == len(owners)


def test_a_block_of_threads_is_no_block_of_memory() -> None:
    assert (ALL["block"].unit, ALL["block_number"].unit) == ("code", "count")
    assert "Threads" in ALL["block"].definition and "first event" in ALL["block_number"].definition
    assert (ALL["node"].unit, ALL["tree_node"].unit) == ("text", "count")
    assert "Host" in ALL["node"].definition and "call tree" in ALL["tree_node"].definition


def test_a_key_has_one_unit_in_all_tables() -> None:
    """Also where a view words a definition anew, such as that of a total."""
    units: dict[str, set[str]] = {key: {metric.unit} for key, metric in ALL.items()}
    names = [name for name in SAMPLE_FILES if name.startswith(("synthetic_gpu", "synthetic_ddp/rank0"))]
    parts = [
        analysis.part(sample(name), Params())
        for name in names
        for analysis in registry.analyses()
        if analysis.model is TraceTable
    ]
    for frame in (frame for part in parts for frame in part.frames.values()):
        for column in frame.columns:
            units.setdefault(column.metric.key, set()).add(column.metric.unit)
    assert {key: found for key, found in units.items() if len(found) > 1} == {}
