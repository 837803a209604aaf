"""The referee itself: its corpora are valid traces, its figures right, its page whole. Nothing is timed here."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks import corpus, latency, report
from benchmarks.measure import Failed, measure
from benchmarks.repeat import repeat
from benchmarks.tools import CACHED, OURS, TOOLS
from tb_plugin.analysis.base import Params
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.views.distributed import GROUP_TABLES, REPORTED_TABLES
from tests.builders import model, part, read
from tests.conftest import SAMPLES, UNLIKE, sample
from tests.samples import OF_TRACES

SAMPLE = "synthetic_ddp/rank0.1795200788609560165.pt.trace.json.gz"
ENOUGH = (60.0, 1e9)


def repeated(name: str, copies: int, folder: Path) -> Path:
    source = SAMPLES / name
    opener = gzip.open if source.suffix == ".gz" else open
    with opener(source) as stream:
        events = len(json.load(stream)["traceEvents"])
    return repeat([source], folder, copies * events)[0]


@pytest.mark.parametrize("name", [SAMPLE, "resnet_cpu/worker0.1795200788569794381.pt.trace.json.gz"])
def test_a_repeated_trace_is_the_trace_three_times(name: str, tmp_path: Path) -> None:
    once, table = sample(name), model(repeated(name, 3, tmp_path))
    assert not table.report.issues and table.report.complete
    assert len(table.start_ns) == pytest.approx(3 * len(once.start_ns), abs=10)
    assert len(table.steps.label) == 3 * len(once.steps.label) == len(set(table.steps.label))
    # Ids of its own: as many launches, operators and stacks as before in each copy, and nothing nests across copies.
    for column in ("launch", "operator", "parent", "python_parent"):
        links, before = getattr(table, column), getattr(once, column)
        assert (links != MISSING).sum() == pytest.approx(3 * (before != MISSING).sum(), abs=10), column
    assert table.depth.max() == once.depth.max()
    kernels = part(table, "kernels").frames["kernels"].data["calls"].to_pylist()
    assert sum(kernels) == 3 * (once.kind == EventKind.KERNEL).sum()


def test_ranks_stay_on_one_clock(tmp_path: Path) -> None:
    sources = sorted((SAMPLES / "synthetic_ddp").glob("*.gz"))
    ranks = [model(path) for path in repeat(sources, tmp_path, 40_000)]
    first = [rank.origin_ns for rank in ranks]
    for rank, source, origin in zip(ranks, sources, first, strict=True):
        once = model(source)
        steps = len(once.steps.label)
        period = rank.steps.start_ns[steps] - rank.steps.start_ns[0]
        assert origin == once.origin_ns
        assert period == ranks[0].steps.start_ns[steps] - ranks[0].steps.start_ns[0]


def test_nothing_private_goes_along(tmp_path: Path) -> None:
    source = tmp_path / "worker0.1.pt.trace.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 1}
    document = {"schemaVersion": 1, "SECRET_TOKEN": "hush", "traceEvents": [event], "user": "hush"}
    source.write_text(json.dumps(document))
    (tmp_path / "out").mkdir()
    (written,) = repeat([source], tmp_path / "out", 3)
    found = json.loads(gzip.decompress(written.read_bytes()))
    assert set(found) == {"schemaVersion", "traceEvents"}
    assert [(each["ts"]) for each in found["traceEvents"]] == [5, 5 + 1002, 5 + 2004]


def test_the_smallest_trace_has_every_default_page(tmp_path: Path) -> None:
    (trace,) = corpus.files(corpus.make(tmp_path, 0, corpus.START))
    raw = read(trace)
    assert raw.report.events_in_file == 4 and not raw.report.issues
    assert part(model(trace), "kernels").frames["kernels"].data.num_rows == 1


def test_requests_know_every_table() -> None:
    known = {view: set(tables) for view, tables in latency.TABLES.items()}
    for analysis in OF_TRACES:
        if analysis.id in ("events", "stated"):  # the tables of the second one are the profile's own
            continue
        assert analysis.id in known
        for name in UNLIKE:
            if analysis.scope == "profile":
                assert set(analysis.part(sample(name), Params()).frames) <= known[analysis.id], (analysis.id, name)


def test_a_line_is_fitted() -> None:
    fixed, slope = report.fit([(0.1, 1.5), (1.0, 6.0), (5.0, 26.0)])
    assert (fixed, slope) == (pytest.approx(1.0), pytest.approx(5.0))


def test_quantiles_are_values_that_were_measured() -> None:
    times = [float(number) for number in range(1, 101)]
    assert report.quantile(times, 0.95) == 95.0
    assert report.quantile([3.0], 0.95) == 3.0
    assert report.quantile([1.0, 2.0, 9.0], 0.95) == 9.0


def test_the_newest_section_stands_first_and_old_ones_go() -> None:
    document = "# Title\n\nIntro.\n"
    for day in (1, 2, 3, 4):
        document = report.placed(document, f"## {day} May\n\nunfinished\n")
        document = report.placed(document, f"## {day} May\n\n### deeper\n\n{day}\n")
    assert document.startswith("# Title\n\nIntro.\n\n## 4 May\n")
    assert [line for line in document.splitlines() if line.startswith("## ")] == ["## 4 May", "## 3 May"]
    assert "unfinished" not in document and document.count("### deeper") == 2


def test_what_a_command_costs() -> None:
    found = measure(
        [sys.executable, "-c", "import time; x = bytearray(80_000_000); time.sleep(0.5); print(7)"], {}, *ENOUGH
    )
    assert found.output.strip() == "7" and found.wall_s > 0.5
    assert 80e6 < found.largest_bytes < 200e6 and 0 < found.cpu_s < 60


@pytest.mark.parametrize(
    ("code", "limits", "why"),
    [
        ("import time; time.sleep(60)", (0.2, 1e9), "time limit"),
        ("import time; x = bytearray(300_000_000); time.sleep(60)", (60.0, 1e8), "of memory"),
        ("raise SystemExit('first\\nlast')", ENOUGH, "last"),
        ("import subprocess as s; s.run(['sleep', '60'])", (0.5, 1e9), "time limit"),
    ],
)
def test_a_command_that_fails_says_why(code: str, limits: tuple[float, float], why: str) -> None:
    with pytest.raises(Failed, match=why):
        measure([sys.executable, "-c", code], {}, *limits)


def test_peers_have_an_environment_each_and_ours_none() -> None:
    assert {name for name, tool in TOOLS.items() if not tool.packages} == {OURS, CACHED}
    assert all((tool.script == "peers.py") == bool(tool.venv) for tool in TOOLS.values())


def test_latency_asks_for_all_tables_that_the_docs_name() -> None:
    assert {*GROUP_TABLES, *REPORTED_TABLES} <= {*latency.TABLES["distributed"]}
    reference = (SAMPLES.parent / "docs" / "reference" / "http.md").read_text()
    section = reference.split("### `distributed`")[1].split("\n### ")[0]
    named = {*re.findall(r"`(\w+)`", section.split("**Tables**: ")[1])}
    words = {"job_path", "meetings", "partners", "within", "of", "event", "start_ns", "call", "stages"}
    assert named - words == {*latency.TABLES["distributed"]}
