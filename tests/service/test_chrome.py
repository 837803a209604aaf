"""An exported window is a trace of its own: opened again, it gives the numbers it came from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tb_plugin import api
from tb_plugin.analysis.base import Params
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.service.answers.chrome_export import write_window
from tb_plugin.storage.files import FileSource
from tests.builders import trace
from tests.samples import OF_TRACES

SAMPLES = Path(__file__).parents[2] / "samples"
RUNS = ("synthetic_gpu", "transformer_cpu", "ddp_gloo")


def _load(path: Path) -> TraceTable:
    return assemble(KinetoReader().read(FileSource({path.name: str(path)}), ReadOptions(), no_progress))


@pytest.mark.parametrize("run", RUNS)
def test_the_whole_trace_exported_gives_the_same_numbers(run: str, tmp_path: Path) -> None:
    original = _load(sorted((SAMPLES / run).iterdir())[0])
    write_window(original, None, None, str(tmp_path / "window.json.gz"))
    exported = _load(tmp_path / "window.json.gz")
    assert exported.report.issues == ()
    for analysis in OF_TRACES:
        if analysis.id in ("timeline", "events"):
            continue
        before, after = analysis.part(original, Params()), analysis.part(exported, Params())
        assert before.facts == after.facts
        for name, frame in before.frames.items():
            assert frame.data.to_pydict() == after.frames[name].data.to_pydict(), name


@pytest.mark.parametrize("place", ["clang", "jax_cpu", "viztracer_cpu", "node", "chromium"])
def test_traces_of_other_tools_stay_what_they_are(place: str, tmp_path: Path) -> None:
    original = api.open(str(SAMPLES / place))
    write_window(original._made(), None, None, str(tmp_path / "window.json.gz"))
    exported = api.open(str(tmp_path / "window.json.gz"))
    assert isinstance(original, api.OpenProfile) and isinstance(exported, api.OpenProfile)
    assert exported.facts == original.facts
    assert exported.table("phases", "phases").equals(original.table("phases", "phases"))


def test_a_window_holds_what_touches_it_and_nothing_else(tmp_path: Path) -> None:
    original = _load(sorted((SAMPLES / "synthetic_gpu").iterdir())[0])
    low, high = int(original.steps.start_ns[1]), int(original.steps.end_ns[1])
    write_window(original, low, high, str(tmp_path / "window.json.gz"))
    exported = _load(tmp_path / "window.json.gz")
    touching = (original.start_ns < high) & (original.end_ns > low)
    touching |= (original.start_ns >= low) & (original.start_ns < high)
    assert len(exported) == int(touching.sum())
    expected = np.sort(original.start_ns[touching] + original.origin_ns)
    assert np.array_equal(np.sort(exported.start_ns + exported.origin_ns), expected)


def test_counters_go_along(tmp_path: Path) -> None:
    builder = trace().op("a", 5, 100).counter(10, "a · b", pid=3, v=1, w=-2.5).counter(20.001, v=3).counter(40, v=4)
    original = builder.raw(ph="C", name="n", id=1, pid=1, ts=20, args={"v": 1}).table()
    write_window(original, None, None, str(tmp_path / "all.json.gz"))
    everything = _load(tmp_path / "all.json.gz")
    assert everything.report.issues == () and everything.report.events_loaded == original.report.events_loaded
    assert _counters(everything) == _counters(original)
    write_window(original, 15_000, 35_000, str(tmp_path / "some.json.gz"))
    assert _counters(_load(tmp_path / "some.json.gz")) == _counters(original)[2:4]


def _counters(table: TraceTable) -> list[tuple[object, ...]]:
    found = table.counters
    texts = [[table.strings[int(i)] for i in ids] for ids in (found.name, found.series, found.pid)]
    return list(zip((found.time_ns + table.origin_ns).tolist(), found.value.tolist(), *texts, strict=True))
