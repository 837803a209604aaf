"""The vendor's plugin on recorded profiles of NPUs, answer by answer, against our memory view.

What it does otherwise: times count from the first event of the trace, or from 1970 where there is none. It compares peaks of
components as texts ("92.2" > "404.1") and drops the signs of sizes; no recording at hand has a row that shows either.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.memory.view import Memory
from tests.depth import needs_time
from tests.formats.ascend.folders import OUTPUT, RECORDED, folder, needs_recorded, table_of

pytestmark = [needs_recorded, needs_time]

GOLDEN = RECORDED.parent / "golden"
CASES = sorted(str(path.parent.relative_to(GOLDEN)) for path in GOLDEN.glob("*/rank_*/memory_curve.json"))
MIB = 2**20
SHIFTED = {
    "gpt3_2023_level1/rank_0",
    "gpt3_2023_level1/rank_1",
    "qwen3_pp2_dp2_level2/rank_0",
    "qwen3_pp2_dp2_level2/rank_2",
}
"""Without a trace view their axis shows times since 1970: the plugin's zero is 0."""


class Case(NamedTuple):
    trace: TraceTable
    curve: dict[str, Any]
    events: dict[str, Any]
    zero_ns: int
    """When the plugin's axis begins, since 1970."""
    key: str
    path: Path

    def answer(self, **extra: str) -> Any:
        return Memory().part(self.trace, Params(extra=tuple(extra.items())))

    def millis(self, since: int | None) -> float | None:
        """A time of ours on the axis of the plugin."""
        return None if since is None else (since + self.trace.origin_ns - self.zero_ns) / 1e6


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    run, rank = request.param.split("/")
    (path,) = (RECORDED / run).glob(f"{rank}_*")
    curve, events = (
        json.loads((GOLDEN / request.param / f"memory_{what}.json").read_text()) for what in ("curve", "events")
    )
    return Case(table_of(folder(path)), curve, events, _zero(path), request.param, path)


def _zero(path: Path) -> int:
    """The first time of the trace view: counters count, names of threads do not."""
    view = path / OUTPUT / "trace_view.json"
    if not view.exists():
        return 0
    times = [str(event["ts"]) for event in json.loads(view.read_bytes()) if "ts" in event]
    first = min(times, key=float)
    return int(first.replace(".", "").ljust(19, "0"))


def test_which_have_a_trace_view(case: Case) -> None:
    assert (case.zero_ns == 0) == (case.key in SHIFTED)


def close(ours: Sequence[float | None], theirs: Sequence[float | None]) -> None:
    """Theirs are rounded to three decimals."""
    assert [each is None for each in ours] == [each is None for each in theirs]
    found, said = (np.array([each for each in some if each is not None]) for some in (ours, theirs))
    np.testing.assert_allclose(found, said, rtol=0, atol=0.0011)


def test_curves(case: Case) -> None:
    """Every sample of every curve: PTA+GE in one answer, PTA, GE and APP in the other. None is left out at this width."""
    (total,), (apart,) = case.curve["total"]["rows"].values(), case.curve["ptaGe"]["rows"].values()
    pairs = zip(total["Allocated"], total["Reserved"], strict=True)
    theirs: dict[str, list[list[Any]]] = {"PTA+GE": [[at, used, kept] for (at, used), (_, kept) in pairs], **apart}
    names = [figure.metric.title for figure in case.answer().payloads["allocators"].figures]
    assert sorted(names) == sorted(theirs)
    for allocator, rows in theirs.items():
        series = case.answer(allocator=allocator, width="5000").payloads["allocator_curve"]
        lines = {line.metric.key: line.values[1:-1] for line in series.lines}
        # The first and the last moment are the ends of what is drawn.
        close([case.millis(x) for x in series.x[1:-1]], [at for at, _, _ in rows])
        for place, key in ((1, "stated_allocated_bytes"), (2, "stated_reserved_bytes")):
            if key not in lines:
                assert all(row[place] is None for row in rows), (allocator, key)
                continue
            close([None if v is None else v / MIB for v in lines[key]], [row[place] for row in rows])


def test_peaks_of_curves(case: Case) -> None:
    rows = {row["allocator"]: row for row in case.answer().frames["memory_allocators"].data.to_pylist()}
    (text,) = case.curve["total"]["metadata"]["peaks"].values()
    assert f"Peak Memory Usage: {rows['PTA+GE']['stated_peak_allocated_bytes'] / MIB:.1f}MB" == text
    (text,) = case.curve["ptaGe"]["metadata"]["peaks"].values()
    said = {name: float(peak) for name, peak in re.findall(r"(\S+)-([\d.]+)MB", text)}
    ours = {name: row["stated_peak_reserved_bytes"] / MIB for name, row in rows.items() if name != "PTA+GE"}
    assert ours == pytest.approx(said, abs=0.0501)


def test_blocks(case: Case) -> None:
    """Every allocation of every operator: PTA's and GE's, each in its own place here, in one list there."""
    theirs = [
        (name, size, begin, end, life)
        for rows in case.events["operator"]["rows"].values()
        for name, size, begin, end, life in rows
    ]
    ours = [
        (row["name"], row["block_bytes"] / 1024, case.millis(row["allocated_at_ns"]), case.millis(row["released_at_ns"]),
         None if row["lifetime_ns"] is None else row["lifetime_ns"] / 1e6)
        for row in case.answer().frames["memory_events"].data.to_pylist()
    ]  # fmt: skip
    assert len(ours) == len(theirs)

    def key(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return (row[0], row[1], round(row[2] if row[2] is not None else -1, 2))

    found, said = sorted(ours, key=key), sorted(theirs, key=key)
    assert [row[:2] for row in found] == [row[:2] for row in said]
    for place in (2, 3, 4):
        close([row[place] for row in found], [row[place] for row in said])


def test_components(case: Case) -> None:
    """The peak of each component, and when it was first reached."""
    theirs = {name: (peak, at) for rows in case.events["component"]["rows"].values() for name, peak, at in rows}
    frame = case.answer(zeros="1").frames.get("memory_components")
    rows = {row["component"]: row for row in frame.data.to_pylist()} if frame is not None else {}
    assert set(rows) == set(theirs)
    samples = _samples(case)
    for name, row in rows.items():
        peak, at = theirs[name]
        most = max(float(value) for value in samples[name])
        assert row["stated_peak_reserved_bytes"] / MIB == most == float(peak), name
        close([case.millis(row["stated_peak_reserved_at_ns"])], [at])


def _samples(case: Case) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for file in case.path.rglob("npu_module_mem.csv"):
        with file.open(encoding="utf-8-sig", newline="") as text:
            for row in csv.DictReader(text):
                found.setdefault(row["Component"], []).append(row["Total Reserved(MB)"])
    return found
