"""The work of reading and answering is counted, not timed: a busy machine changes nothing here.

A trace is repeated to two sizes, and what one more event costs is bounded: a second pass in Python over the events, a
copy of a chunk, a column too many or a table computed twice is found. Bounds leave room for small changes; a change that
needs more has to say so here.
"""

from __future__ import annotations

import functools
import gzip
import sys
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from werkzeug.test import Client

from benchmarks.repeat import repeat
from tb_plugin.analysis.base import Params
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.formats.kineto import collector, decoding
from tb_plugin.lib import model_cache
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tb_plugin.model_kinds import trace as trace_model
from tb_plugin.model_kinds.trace import TraceModel
from tb_plugin.web.routes import BASE, Routes
from tests.builders import analysis, part, read
from tests.conftest import SAMPLES
from tests.depth import sampled
from tests.samples import OF_TRACES
from tests.service.fakes import workspace_of

FEW, MANY = 6_000, 24_000
VIEWS = (
    "overview", "findings", "timeline", "operators", "kernels", "launches", "modules", "stacks", "phases", "memory", "find",
    "flows", "counters", "gaps",
)  # fmt: skip
RUN_AGAIN = ("overview", "findings")
SORTS = {"sort", "argsort", "lexsort", "unique", "group", "sort_indices", "dictionary_encode"}
BYTES_PER_ROW = {
    "read": 160,
    "assemble": 260,
    "overview": 142,  # it looks for idle threads where Python limits the program, as "stacks" does
    "findings": 98,
    "timeline": 85,
    "operators": 150,
    "kernels": 42,  # with the work of replays
    "launches": 110,
    "modules": 64,
    "stacks": 126,
    "phases": 80,
    "memory": 130,
    "find": 55,
    "flows": 20,
    "counters": 40,
    "gaps": 125,  # intervals are sorted by name and time, so that the longest activity takes linear time
    "origins": 40,
}
"""Memory at the peak of a stage that one more kept event may take. Some stages are a few per cent below it.

The trace launches graphs: what their replays stand for takes up to 7 bytes of it, which traces without graphs do not need.
"""


@functools.cache
def text_of(events: int) -> bytes:
    """A GPU trace with shapes, stacks, modules and memory; its steps again and again."""
    source = next((SAMPLES / "synthetic_ddp").glob("rank0.*.gz"))
    with tempfile.TemporaryDirectory() as folder:
        return gzip.decompress(repeat([source], Path(folder), events)[0].read_bytes())


@functools.cache
def raw_of(events: int) -> RawTrace:
    return read(text_of(events))


@functools.cache
def table_of(events: int) -> TraceTable:
    return assemble(raw_of(events))


def unasked(events: int) -> TraceTable:
    """The same table under another identity: what an analysis remembers of the first one is not counted."""
    return msgspec.structs.replace(table_of(events))


STAGES: dict[str, Callable[[int], object]] = {
    "read": lambda events: read(text_of(events)),
    "assemble": lambda events: assemble(raw_of(events)),
    **{view: functools.partial(lambda view, events: part(unasked(events), view), view) for view in VIEWS},
    "origins": lambda events: origins_of(unasked(events)),
}


@pytest.fixture(autouse=True)
def own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making room in a store that other tests have filled would be counted as well."""
    monkeypatch.setattr(model_cache, "MEMO", model_cache.Memo())


def prepared(stage: str) -> None:
    """Everything that a stage begins with is there, and what it keeps for ever after its first run as well."""
    for events in (FEW, MANY):
        table_of(events)
    STAGES[stage](FEW)


def more(count: Callable[[int], float], of: Callable[[int], float]) -> float:
    """What one more event adds to a count."""
    return (count(MANY) - count(FEW)) / (of(MANY) - of(FEW))


def rows(events: int) -> int:
    return len(table_of(events).start_ns)


def called(work: Callable[[], object]) -> Counter[str]:
    """Function calls that Python sees, by name."""
    names: Counter[str] = Counter()

    def tally(frame: Any, event: str, function: Any) -> None:
        if event == "call":
            names[frame.f_code.co_name] += 1
        elif event == "c_call":
            names[getattr(function, "__name__", "")] += 1

    sys.setprofile(tally)
    try:
        work()
    finally:
        sys.setprofile(None)
    return names


def below(count: Callable[[], float], limit: float) -> bool:
    """Whether a count stays below a limit, at the second try: what a library does once is no work of an event."""
    return count() < limit or count() < limit


def lines(work: Callable[[], object]) -> int:
    """Lines of Python that are run: a loop over the events shows here, also one without calls."""
    count = 0

    def tally(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return tally

    sys.settrace(tally)
    try:
        work()
    finally:
        sys.settrace(None)
    return count


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_sizes_are_what_they_say() -> None:
    small, large = raw_of(FEW), raw_of(MANY)
    assert not small.report.issues and not large.report.issues
    assert large.report.events_in_file > 3.9 * small.report.events_in_file > 20_000
    assert len(large.memory.time_ns) > 3.9 * len(small.memory.time_ns) > 0


def test_reading_an_event_calls_one_function_at_most() -> None:
    prepared("read")
    calls = more(
        lambda events: called(lambda: STAGES["read"](events)).total(), lambda n: raw_of(n).report.events_in_file
    )
    assert calls < 1.3


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "read"])
def test_no_python_runs_per_event_after_reading(stage: str) -> None:
    """Columns are worked on as a whole. What grows with the steps and the operators' names is far less than an event.

    Findings are run again from one wait of the host or of a stream to the next, 20 lines each, more than once.
    """
    prepared(stage)
    limit = 3.0 if stage in RUN_AGAIN else 0.17
    assert below(lambda: more(lambda events: lines(lambda: STAGES[stage](events)), rows), limit)


@pytest.mark.parametrize("stage", sampled([*STAGES], ["read", "assemble", "overview", "findings", "memory"]))
def test_sorting_and_grouping_do_not_multiply_with_the_events(stage: str) -> None:
    prepared(stage)

    def sorts(events: int) -> int:
        names = called(lambda: STAGES[stage](events))
        return sum(count for name, count in names.items() if name in SORTS)

    # Reading sorts nothing but a little at its end; some views sort once for each step or device.
    # A longer trace shows more findings, each of which is run again.
    assert sorts(MANY) <= sorts(FEW) + (64 if stage in RUN_AGAIN else 24)
    # The account of idle time sorts about 90 times for each device, and each rule a few times, also to
    # bound what it saves, however long the trace is.
    assert sorts(MANY) < (1300 if stage in RUN_AGAIN else 300)


@pytest.mark.parametrize("stage", STAGES)
def test_memory_per_event_is_bounded(stage: str) -> None:
    prepared(stage)
    assert below(lambda: more(lambda events: peak(lambda: STAGES[stage](events)), rows), BYTES_PER_ROW[stage])


@pytest.mark.parametrize("table", ["operators/operators", "kernels/kernels", "memory/memory_events", "find/hits"])
def test_a_page_of_a_table_costs_the_same_however_long_the_table(table: str) -> None:
    """Searching, sorting and counting run over columns; Python sees the rows of the page."""
    view, _, name = table.partition("/")
    found = {events: part(table_of(events), view) for events in (FEW, MANY)}
    frames = {events: found[events].frames[name] for events in found}
    params = Params(table=name, sort=frames[FEW].columns[1].metric.key, search="a", limit=10)
    answer = analysis(view).answer
    for events in found:
        answer([found[events]], params)  # what is said of a whole table is worked out for its first page
    work = {events: lines(lambda events=events: answer([found[events]], params)) for events in found}  # type: ignore[misc]
    # Not to the line: a library may compile a pattern anew that other tests pushed out of its cache.
    assert work[MANY] <= work[FEW] + 100
    assert work[FEW] < 2000


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each text of events that was decoded; an attempt that ends at an unknown name is made for new ones only."""
    sizes: list[int] = []
    refused: list[int] = []
    real = decoding.decode

    def counted(decoder: Any, text: Any) -> Any:
        try:
            events = real(decoder, text)
        except msgspec.ValidationError:
            refused.append(len(text))
            assert len(refused) <= 16
            raise
        sizes.append(len(text))
        return events

    monkeypatch.setattr(decoding, "decode", counted)
    return sizes


@pytest.mark.parametrize("chunk_bytes", [16 * 1024, 512 * 1024])
@pytest.mark.parametrize("layout", ["Kineto's", "minified"])
def test_every_byte_is_decoded_once(decoded: list[int], chunk_bytes: int, layout: str) -> None:
    text = text_of(FEW)
    if layout == "minified":
        text = b"".join(line.strip() for line in text.splitlines())
    read(text, chunk_bytes)
    assert 0.9 * len(text) < sum(decoded) < 1.1 * len(text)


def test_a_damaged_event_costs_its_chunk_and_no_more(decoded: list[int]) -> None:
    text, chunk_bytes = text_of(FEW), 64 * 1024
    middle = text.index(b'"dur": ', len(text) // 2)
    report = read(text[:middle] + b"!" + text[middle:], chunk_bytes).report
    assert [issue.outcome for issue in report.issues] != []
    assert sum(decoded) < len(text) + 8 * chunk_bytes


def test_every_event_is_collected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: Counter[str] = Counter()
    for owner, name in ((collector.Collector, "all"), (collector.RowColumns, "rows"), (collector.Memory, "memory")):
        real = owner.add

        def add(self: Any, events: Any, *rest: Any, real: Any = real, of: str = name, **named: Any) -> Any:
            taken[of] += len(events)
            return real(self, events, *rest, **named)

        monkeypatch.setattr(owner, "add", add)
    raw = read(text_of(FEW))
    assert taken["all"] == raw.report.events_in_file
    assert taken["rows"] == len(raw.start_ns)
    assert taken["memory"] == len(raw.memory.time_ns)


REQUESTS = (
    *(f"view/{view}" for view in VIEWS),
    *(
        f"table/{view}/{view}?{query}"
        for view in ("operators", "kernels")
        for query in ("offset=1", "sort=name&desc=0")
    ),
    "table/operators/stacks?where=name:aten::add",
    "table/modules/modules?search=a",
    "table/memory/memory_events?sort=block_bytes&limit=1000",
    "table/find/hits?search=a&offset=2",
    "view/find?search=a&near_ns=5",
    "view/distributed",
    "table/distributed/operations?offset=1",
    "view/diff",
    "table/diff/operators?sort=name",
    "view/operators?steps={step}",
    "table/operators/operators?steps={step}&offset=2",
)


def test_nothing_is_computed_twice_for_a_loaded_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One parse, one opening of the columns, and one computation of each view and selection, however often it is asked."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "worker0.1.pt.trace.json").write_bytes(text_of(FEW))
    done: Counter[object] = Counter()

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            done[name] += 1
            return real(*args, **kwargs)

        return call

    def computed(real: Callable[..., Any]) -> Callable[..., Any]:
        def compute(self: Any, trace: Any, params: Any) -> Any:
            done[self.id, self.part_key(params)] += 1
            return real(self, trace, params)

        return compute

    monkeypatch.setattr(trace_model, "assemble", counted("parse", assemble))
    monkeypatch.setattr(TraceModel, "read", counted("open", TraceModel.read))
    for each in OF_TRACES:
        monkeypatch.setattr(type(each.view), "part", computed(type(each.view).part))
    with workspace_of(tmp_path / "logs", tmp_path / "cache") as workspace:
        client = Client(Routes(lambda: workspace))
        step = client.get(f"{BASE}profile").get_json()["steps"][1]["label"]
        for _ in range(2):
            for request in REQUESTS:
                while (answer := client.get(BASE + request.format(step=step))).status_code == 202:
                    pass
                assert answer.status_code == 200, (request, answer.get_data()[:300])
    assert done["parse"] == done["open"] == 1
    assert {key: count for key, count in done.items() if count > 1} == {}
    assert len(done) > len(VIEWS) + 4
