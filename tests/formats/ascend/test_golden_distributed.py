"""What Ascend's own plugin answers about ranks, recorded, against the page here: equal but for its bugs, each named."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.model.trace.job_tables import BANDS, LINKS, OPERATIONS, PACKETS, STEP_TIMES, reported_table
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tb_plugin.payloads import Series, Table, View
from tb_plugin.storage.files import FileSource
from tb_plugin.views.distributed.view import Distributed
from tests.formats.ascend.databases import ANALYSED, read
from tests.formats.ascend.folders import OUTPUT, RECORDED, Files, folder, needs_recorded, raw_of, table_of

pytestmark = needs_recorded

GOLDEN = RECORDED.parent / "golden"
RUNS = ("alexnet_text_level1", "gpt3_2023_level1", "qwen3_pp2_dp2_level2")
VIEW = Distributed()
KIB_MIB = 1024 * 1024 / 1_000_000
"""The plugin takes the decimal megabytes of communication for those of memory."""
Json = dict[str, Any]


@cache
def traces(run: str) -> Mapping[str, TraceTable]:
    """The ranks of a run, by the names that the plugin gives them."""
    return {path.name[:6]: table_of(folder(path)) for path in sorted((RECORDED / run).iterdir())}


@cache
def parts(run: str) -> Sequence[Part]:
    return [replace(VIEW.part(trace, Params()), worker=name) for name, trace in traces(run).items()]


def table(run: str, name: str, some: Sequence[Part] | None = None) -> list[Json]:
    answer = VIEW.answer(some or parts(run), Params(table=name, limit=None))
    assert isinstance(answer, Table)
    return answer.rows


def golden(run: str, name: str) -> Json:
    found: Json = json.loads((GOLDEN / run / f"distributed_{name}.json").read_bytes())
    return found


def us(ns: int) -> float:
    return ns / 1000


def test_every_answer_of_the_plugin_is_compared() -> None:
    answers = {(path.parent.name, path.name) for path in GOLDEN.glob("*/distributed_*")}
    names = ("commops", "gpuinfo", "overlap", "waittime")
    assert answers == {(run, f"distributed_{name}.json") for run in RUNS for name in names} | {
        ("alexnet_text_level0", f"distributed_{name}.http404.txt") for name in names
    }


@pytest.mark.parametrize("run", RUNS)
def test_overlap(run: str) -> None:
    """Bug: with a column Device_id first, its numbers are taken for steps. Bug: the mean ("all") loses its fractions."""
    said = golden(run, "overlap")["data"]
    rows = {row["worker"]: row for row in table(run, "rank_steps")}
    devices = {
        name: reported_table(trace.reported_tables, STEP_TIMES)["device"][0].as_py()
        for name, trace in traces(run).items()
    }
    steps = {str(devices[name]) if devices[name] is not None else row["step"] for name, row in rows.items()}
    assert said.keys() - {"all"} == steps
    assert {row["step"] for row in rows.values()} == {{"alexnet": "50", "gpt3_20": "2", "qwen3_p": "13"}[run[:7]]}
    for name, row in rows.items():
        ours = [
            us(row["computing_ns"] - row["overlapped_ns"]), us(row["overlapped_ns"]), us(row["exposed_ns"]),
            us(row["device_free_ns"]),
        ]  # fmt: skip
        key = str(devices[name]) if devices[name] is not None else row["step"]
        assert said[key][name] == pytest.approx(ours, abs=0.002)
        assert said["all"][name] == [int(value) for value in ours]


@pytest.mark.parametrize("run", RUNS)
def test_the_bars_are_those_numbers(run: str) -> None:
    view = VIEW.answer(parts(run), Params())
    assert isinstance(view, View)
    series = view.payloads["step_times"]
    assert isinstance(series, Series) and series.x == list(traces(run))
    lines = {line.metric.key: line.values for line in series.lines}
    received = lines.get("exposed_receive_ns", [0] * len(series.x))
    ours = zip(
        lines["computing_alone_ns"],
        lines.get("overlapped_ns", [0] * len(series.x)),
        [(one or 0) + (two or 0) for one, two in zip(lines["exposed_rest_ns"], received, strict=True)],
        lines["device_free_ns"],
        strict=True,
    )
    for name, values in zip(series.x, ours, strict=True):
        assert golden(run, "overlap")["data"]["all"][name] == [int((value or 0) / 1000) for value in values]


@pytest.mark.parametrize("run", RUNS)
def test_waiting(run: str) -> None:
    """Transit and synchronization of all calls; the plugin leaves out the rest of waiting, and idle."""
    said = golden(run, "waittime")["data"]
    for row in table(run, "rank_steps"):
        ours = [us(row["transit_ns"]), us(row["synchronization_ns"])]
        for step in (row["step"], "all"):
            assert said[step][row["worker"]] == pytest.approx(ours, abs=0.0005 * row["job_calls"] + 0.001)
        rest = row["wait_rest_ns"] + row["call_idle_ns"]
        assert row["elapse_ns"] - row["transit_ns"] - row["synchronization_ns"] == pytest.approx(
            rest, abs=row["job_calls"]
        )


@pytest.mark.parametrize("run", RUNS)
def test_kinds_of_calls(run: str) -> None:
    """Bugs: bytes are summed over all bands, SDMA and its parts, and a megabyte of a million bytes counts as MiB."""
    said = golden(run, "commops")["data"]
    shown = {(row["worker"], row["collective"]): row for row in table(run, "operation_types")}
    seen = set()
    for name, trace in traces(run).items():
        every, true = (moved(trace, parts_too) for parts_too in (True, False))
        assert [title["name"] for title in said[name]["columns"]][1:3] == ["Calls", "Total Transit Size (bytes)"]
        for kind, calls, size, mean_size, elapse, mean_elapse, transit, mean_transit in said[name]["rows"]:
            row = shown[name, collective_name(kind)]
            seen.add((name, collective_name(kind)))
            assert row["job_calls"] == calls
            assert us(row["elapse_ns"]) == pytest.approx(elapse, abs=0.0005 * calls + 0.001)
            assert us(row["transit_ns"]) == pytest.approx(transit, abs=0.0005 * calls + 0.001)
            assert us(row["mean_elapse_ns"]) == pytest.approx(mean_elapse, abs=1)
            assert us(row["mean_transit_ns"]) == pytest.approx(mean_transit, abs=1)
            assert every[kind] * KIB_MIB == pytest.approx(size, abs=0.01) and mean_size == pytest.approx(
                size / calls, abs=1
            )
            assert row["link_bytes"] == true[kind] and row["mean_link_bytes"] == true[kind] // calls
    assert seen == shown.keys()


def moved(trace: TraceTable, parts_too: bool) -> dict[str, int]:
    """Bytes by what the plugin calls a kind: the name up to its first digit."""
    found: dict[str, int] = defaultdict(int)
    for row in reported_table(trace.reported_tables, BANDS).to_pylist():
        if parts_too or row["part_of"] is None:
            found[re.split(r"\d", row["operation"])[0]] += row["bytes"]
    return found


def test_alexnet_moves_what_the_specification_says() -> None:
    rows = table("alexnet_text_level1", "operation_types")
    assert [(row["worker"], row["link_bytes"]) for row in rows] == [("rank_0", 427_596_096), ("rank_1", 427_596_096)]


@pytest.mark.parametrize("run", RUNS)
def test_devices(run: str) -> None:
    """Bug: the plugin's answer about devices is always null."""
    assert golden(run, "gpuinfo") is None
    devices = {"alexnet_text_level1": ["0", "1"], "gpt3_2023_level1": ["0"] * 2, "qwen3_pp2_dp2_level2": [*"0145"]}
    assert [row["device"] for row in table(run, "devices")] == devices[run]


def test_level_0_has_the_view_nonetheless() -> None:
    """The plugin has no such view where one file is missing; the trace views tell who waited for whom."""
    run = "alexnet_text_level0"
    assert all("404" in path.name for path in (GOLDEN / run).glob("distributed_*"))
    rows = {row["worker"]: row for row in table(run, "workers")}
    assert {name: (row["calls"], row["matched"]) for name, row in rows.items()} == {"rank_0": (4, 4), "rank_1": (4, 4)}
    for row in table(run, "rank_steps"):
        assert row["exposed_ns"] == pytest.approx(rows[row["worker"]]["exposed_communication_ns"], rel=0.01)


def test_one_rank_without_a_file_removes_nothing_else() -> None:
    run = "qwen3_pp2_dp2_level2"
    path = next(path for path in sorted((RECORDED / run).iterdir()) if path.name.startswith("rank_2"))
    left = {str(file.relative_to(path)): file for file in path.rglob("*") if file.is_file()}
    left = {name: file.read_bytes() for name, file in left.items() if "communication" not in name and ".db" not in name}
    lacking = replace(VIEW.part(table_of(Files(left)), Params()), worker="rank_2")
    some = [lacking if part.worker == "rank_2" else part for part in parts(run)]
    whole, rest = ({row["worker"]: row for row in table(run, "rank_steps", each)} for each in (parts(run), some))
    assert rest.keys() == whole.keys() and all(rest[name] == whole[name] for name in whole if name != "rank_2")
    assert rest["rank_2"]["computing_ns"] == whole["rank_2"]["computing_ns"] and rest["rank_2"]["transit_ns"] is None
    view = VIEW.answer(some, Params())
    assert isinstance(view, View)
    told = {notice.rule: notice.text for notice in view.payloads["findings"].notices}
    assert "reported for rank_2." in told["communication_unstated"]


def test_two_of_four_ranks_say_who_waits_with_bounds() -> None:
    """Ranks 0 and 2 are the stages of a pipeline: what they wait for each other is measured, in groups of four bounded."""
    run = "qwen3_pp2_dp2_level2"
    some = [part for part in parts(run) if part.worker in ("rank_0", "rank_2")]
    rows = table(run, "collectives", some)
    timing = {(row["group_size"], row["timing"]) for row in rows}
    assert timing == {(2, "measured"), (4, "bound"), (2, None), (1, None)}
    exchanged = [row for row in rows if row["collective"] == "send_recv"]
    assert [(row["worker"], row["last_worker"], row["wait_ns"]) for row in exchanged] == [
        ("rank_0", "rank_0", 0), ("rank_0", "rank_2", 157_749_160), ("rank_0", "rank_2", 154_453_520),
        ("rank_2", "rank_0", 70_988_540), ("rank_2", "rank_2", 0), ("rank_2", "rank_2", 0),
    ]  # fmt: skip
    view = VIEW.answer(some, Params())
    assert isinstance(view, View)
    assert "bounds" in {notice.rule for notice in view.payloads["findings"].notices}
    assert [line.metric.title for line in view.payloads["waiting"].lines] == [
        "Transfer (max)", "Wait (min)",
    ]  # fmt: skip


def test_four_ranks_of_which_two_have_communication_alone() -> None:
    run = "qwen3_pp2_dp2_level2"
    rows = {row["worker"]: row for row in table(run, "workers")}
    assert [(row["matched"], row["unmatched"], row["bounded"]) for row in rows.values()] == [
        (15, 0, 0), (15, 0, 0), (17, 0, 0), (17, 0, 0),
    ]  # fmt: skip
    assert rows["rank_1"]["compute_ns"] == 230_903_720 and rows["rank_3"]["step_total_ns"] == 810_150_340
    view = VIEW.answer(parts(run), Params())
    assert isinstance(view, View)
    told = {notice.rule: notice.text for notice in view.payloads["findings"].notices}
    assert "rank_1, rank_3" in told["communication_alone"] and "communication_unstated" not in told
    (uneven,) = (notice for notice in view.payloads["findings"].notices if notice.rule == "uneven_stages")
    assert {figure.metric.key: figure.value for figure in uneven.figures} == {
        "job_stage": "2, 3", "computing_ns": 401_131_700, "spread_ratio": pytest.approx(401_131_700 / 231_290_100 - 1),
    }  # fmt: skip
    severity = [notice.severity for notice in view.payloads["findings"].notices]
    assert severity == sorted(severity, key=["high", "medium", "low", "info"].index)


def test_links_of_a_pipeline_in_ranks_of_the_job() -> None:
    view = VIEW.answer(parts("qwen3_pp2_dp2_level2"), Params())
    assert isinstance(view, View)
    series = view.payloads["map_link_bytes"]
    assert isinstance(series, Series) and series.x == ["0", "1", "2", "3"]
    values = [line.values for line in series.lines]
    assert [values[0][2], values[2][0]] == [639_107_168, 639_107_216], "pipeline and shared embeddings"
    assert all(values[place][place] is None for place in range(4))
    rows = [row for row in table("qwen3_pp2_dp2_level2", "links") if row["link_group"] == "pp"]
    between = [(row["link_from"], row["link_to"]) for row in rows if row["link_from"] != row["link_to"]]
    assert between == [("0", "2"), ("1", "3"), ("2", "0"), ("3", "1")]


def test_places_of_which_nobody_says_whose_they_are() -> None:
    """Each rank knows its own place by the link to itself; two of eight are here."""
    view = VIEW.answer(parts("alexnet_text_level1"), Params())
    assert isinstance(view, View)
    series = view.payloads["map_link_bandwidth"]
    assert isinstance(series, Series) and series.x == ["0", "1", *(f"{place} in …586" for place in range(2, 8))]
    assert [line.metric.title for line in series.lines] == ["0", "1"]
    assert all(14e9 < value < 17e9 for line in series.lines for value in line.values if value is not None)


@pytest.mark.parametrize("rank", range(4))
def test_text_and_database_of_a_recording_are_one(rank: int) -> None:
    (path,) = (RECORDED / "qwen3_pp2_dp2_level2").glob(f"rank_{rank}_*")
    stored = read({ANALYSED: (path / OUTPUT / "analysis.db").read_bytes()})
    text = raw_of(folder(path))
    for name in (OPERATIONS, BANDS, PACKETS, LINKS):
        keys = ("step", "kind", "operation", "group", "band", "packet_bytes", "place", "source", "destination")
        first, second = (_sorted(raw, name, keys) for raw in (stored, text))
        if name == LINKS:  # the database knows no groups, so that it counts within them
            for row in (*first, *second):
                del row["source"], row["destination"], row["in_group"]
            first, second = (sorted(rows, key=str) for rows in (first, second))
        assert first == second, name


@pytest.mark.parametrize("rank", range(2))
def test_the_library_s_name_of_a_group_tells_its_number(rank: int) -> None:
    """The database of rows names groups; ``analysis.db`` and the names of operations number the same ones."""
    (path,) = (RECORDED / "alexnet_db_level1").glob(f"rank_{rank}_*")
    whole = folder(path)
    names = [name for name in whole.names() if not name.endswith("analysis.db")]
    alone = raw_of(FileSource({name: str(path / name) for name in names}))
    found = [{raw.strings[int(each)] for each in raw.collectives.group_name} for raw in (alone, raw_of(whole))]
    assert found[0] == found[1] == {"17148521525495523210"}
    assert {text[-3:] for text in found[0]} == {"210"}, "as in hcom_allReduce__210_0_1"


def _sorted(raw: RawTrace, name: str, keys: Sequence[str]) -> list[Json]:
    rows = reported_table(raw.reported_tables, name).to_pylist()
    for row in rows:
        del row["rank"]
    return sorted(rows, key=lambda row: [str(row.get(key)) for key in keys])
