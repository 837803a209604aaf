"""Is the truth beside an invented profile of NPUs true? A recount from the written files has to agree to the nanosecond.

Nothing of tb_plugin takes part: other tests measure tb_plugin against this truth. The recount reads the files as a person
with csv and json does, and knows names of processes, columns and arrows only.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.synthetic_ascend import generator

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
RECORDED = SAMPLES.parent.parent / "shared" / "data" / "ascend" / "logdir"
Json = dict[str, Any]
CASES = {"the sample": generator.Config(), "three steps": generator.Config(steps=3, seed=7)}
OUTPUT = "ASCEND_PROFILER_OUTPUT/"


def ns(text: str | float) -> int:
    """The digits of microseconds as nanoseconds."""
    return int(Decimal(str(text).strip()) * 1000)


class Rank(NamedTuple):
    files: dict[str, bytes]
    truth: Json

    def table(self, name: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.files[OUTPUT + name].decode(), newline="")))

    def document(self, name: str) -> Any:
        return json.loads(self.files[OUTPUT + name])

    @property
    def kernels(self) -> list[dict[str, str]]:
        return [row for row in self.table("kernel_details.csv") if row["Accelerator Core"] != "COMMUNICATION"]


class View(NamedTuple):
    """The events of a trace view by the names of their processes."""

    events: dict[str, list[Json]]
    threads: dict[tuple[int, int], str]

    @classmethod
    def of(cls, rank: Rank) -> View:
        found = rank.document("trace_view.json")
        names = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
        threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in found if e["name"] == "thread_name"}
        events: dict[str, list[Json]] = defaultdict(list)
        for event in found:
            if event["ph"] != "M":
                events[names[event["pid"]]].append(event)
        return cls(events, threads)

    def on(self, process: str, ph: str = "X", cat: str | None = None) -> list[Json]:
        return [e for e in self.events[process] if e["ph"] == ph and (cat is None or e.get("cat") == cat)]


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES)
def ranks(request: pytest.FixtureRequest) -> list[Rank]:
    return [Rank(generator.texts(process), generator.truth_of(process)) for process in generator.play(request.param)]


def summed(rows: list[tuple[str, int]]) -> Json:
    found: Json = {}
    for name, took in rows:
        of = found.setdefault(name, {"calls": 0, "total_ns": 0})
        of["calls"] += 1
        of["total_ns"] += took
    return found


def test_kernels_by_name_type_and_core(ranks: list[Rank]) -> None:
    for rank in ranks:
        for column, key in (("Name", "kernels"), ("Type", "kernels_by_type"), ("Accelerator Core", "kernels_by_core")):
            assert summed([(row[column], ns(row["Duration(us)"])) for row in rank.kernels]) == rank.truth[key]
        assert sum(not row["Step Id"] for row in rank.kernels) == rank.truth["kernels_outside_steps"] == 1
        bound = {
            row["Name"]
            for row in rank.kernels
            if row["aiv_mte2_ratio"] not in ("N/A",) and float(row["aiv_mte2_ratio"]) > 0.8
        }
        assert sorted(bound) == rank.truth["kernels_bound_by_reading"] != []


def test_times_of_steps_are_those_of_the_bars(ranks: list[Rank]) -> None:
    """By the digits of the trace view: computing, communication, what of it is hidden, free; and the file says the same."""
    for rank in ranks:
        view, stated = View.of(rank), rank.table("step_trace_time.csv")
        bars: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for event in view.on("Overlap Analysis"):
            assert view.threads[event["pid"], event["tid"]] == event["name"]
            bars[event["name"]].append((ns(event["ts"]), ns(event["dur"])))
        assert len(stated) == len(rank.truth["steps"])
        for row, step in zip(stated, rank.truth["steps"], strict=True):
            inside = {
                lane: sum(took for at, took in some if step["device_start_ns"] <= at <= step["device_end_ns"])
                for lane, some in bars.items()
            }
            assert inside["Computing"] == step["computing_ns"] == round(float(row["Computing"]) * 1000)
            assert inside["Communication"] == step["communication_ns"] == round(float(row["Communication"]) * 1000)
            assert inside["Communication(Not Overlapped)"] == step["not_overlapped_ns"]
            assert inside["Free"] == step["free_ns"] == round(float(row["Free"]) * 1000) > 0
            assert step["overlapped_ns"] == step["communication_ns"] - step["not_overlapped_ns"] > 0
            assert (
                step["computing_ns"] + step["not_overlapped_ns"] + step["free_ns"]
                == step["stage_ns"] + step["bubble_ns"]
            )
            bubble = [
                c["elapse_ns"]
                for c in rank.truth["collectives"]
                if c["step"] == step["number"] and "receive" in c["name"]
            ]
            assert sum(bubble) == step["bubble_ns"] == round(float(row["Bubble"]) * 1000)
            assert (row["Device_id"], row["Step"]) == (str(rank.truth["device"]), str(step["number"]))
            assert next(iter(row)) == "Device_id" and round(float(row["Preparing"]) * 1000) == step["preparing_ns"] > 0


def test_bars_are_the_union_of_the_kernels(ranks: list[Rank]) -> None:
    """Counted by points: a moment is computing when a kernel runs, and free when nothing does."""
    for rank in ranks:
        view = View.of(rank)
        work: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row in rank.table("kernel_details.csv"):
            what = "Communication" if row["Accelerator Core"] == "COMMUNICATION" else "Computing"
            at = ns(row["Start Time(us)"])
            work[what].append((at, at + ns(row["Duration(us)"])))
        edges = sorted({edge for some in work.values() for pair in some for edge in pair})
        counted: Counter[str] = Counter()
        for begin, end in pairwise(edges):
            busy = {what for what, some in work.items() if any(a <= begin and end <= b for a, b in some)}
            counted.update(dict.fromkeys(busy, end - begin))
            counted["Communication(Not Overlapped)"] += (end - begin) * (busy == {"Communication"})
            counted["Free"] += (end - begin) * (not busy)
        drawn: Counter[str] = Counter()
        for event in view.on("Overlap Analysis"):
            drawn[event["name"]] += ns(event["dur"])
        assert counted == drawn


def test_operators_by_name(ranks: list[Rank]) -> None:
    """Host times by the nesting of the rows, device times by the arrows to the device."""
    for rank in ranks:
        view = View.of(rank)
        ops = view.on("Python", cat="cpu_op")
        spans = [(e["tid"], ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in ops]
        over: list[list[int]] = [
            [
                o
                for o, (tid, begin, end) in enumerate(spans)
                if tid == spans[n][0] and begin < spans[n][1] and end > spans[n][2]
            ]
            for n in range(len(ops))
        ]
        work = {
            (e["pid"], e["tid"], e["ts"]): e
            for process in ("Ascend Hardware", "Communication")
            for e in view.on(process)
        }
        starts = {e["id"]: (e["tid"], ns(e["ts"])) for e in view.on("Python", "s", "async_npu")}
        assert len(starts) == len(rank.truth["launches"]) and min(starts) > 2**53
        totals: dict[str, Counter[str]] = defaultdict(Counter)
        for number, (event, (_, begin, end)) in enumerate(zip(ops, spans, strict=True)):
            totals[event["name"]].update({"calls": 1, "host_total_ns": end - begin, "host_self_ns": end - begin})
            if over[number]:
                parent = max(over[number], key=lambda o: spans[o][1])
                totals[ops[parent]["name"]]["host_self_ns"] -= end - begin
        for process in ("Ascend Hardware", "Communication"):
            for arrow in view.on(process, "f", "async_npu"):
                task = work[arrow["pid"], arrow["tid"], arrow["ts"]]
                at = starts[arrow["id"]]
                number = next(n for n, (tid, begin, _) in enumerate(spans) if (tid, begin) == at)
                took = ns(task["dur"])
                totals[ops[number]["name"]].update({"device_self_ns": took, "device_total_ns": took})
                for outer in over[number]:
                    totals[ops[outer]["name"]]["device_total_ns"] += took
        for name, said in rank.truth["operators"].items():
            assert {key: totals[name][key] for key in said if not key.startswith("cores")} == {
                key: value for key, value in said.items() if not key.startswith("cores")
            }, name
        assert {name for name in totals if not name.startswith("ProfilerStep#")} == set(rank.truth["operators"])


def test_the_table_of_operators_says_the_same(ranks: list[Rank]) -> None:
    columns = {
        "host_self_ns": "Host Self", "host_total_ns": "Host Total", "device_self_ns": "Device Self",
        "device_total_ns": "Device Total",
    }  # fmt: skip
    for rank in ranks:
        rows = rank.table("operator_details.csv")
        for name, said in rank.truth["operators"].items():
            of = [row for row in rows if row["Name"] == name]
            assert len(of) == said["calls"]
            for key, title in columns.items():
                assert sum(ns(row[f"{title} Duration(us)"]) for row in of) == said[key]
                if key.startswith("device"):
                    total = sum(ns(row[f"{title} Duration With AICore(us)"]) for row in of)
                    assert total == said[key.replace("device", "cores")]
        assert len(rows) == sum(said["calls"] for said in rank.truth["operators"].values())
        assert any(row["Call Stack"].count("\n") == 2 for row in rows)


def test_collectives_and_who_waits_for_whom(ranks: list[Rank]) -> None:
    """Both ranks move bytes at the same time; what one of them began earlier it has waited."""
    waited: list[Counter[int]] = [Counter(), Counter()]
    one, other = (rank.truth["collectives"] for rank in ranks)
    assert len(one) == len(other) and {c["group"] for c in one} == {"pp", "embd"}
    for pair in zip(one, other, strict=True):
        began = [c["start_ns"] + c["wait_ns"] for c in pair]
        assert began[0] == began[1] == max(c["start_ns"] for c in pair)
        for rank, c in enumerate(pair):
            assert c["elapse_ns"] == c["wait_ns"] + c["transit_ns"] + c["idle_ns"]
            waited[rank][c["last_rank"]] += c["wait_ns"]
            assert c["wait_ns"] == 0 or c["last_rank"] == 1 - rank
    for number, rank in enumerate(ranks):
        assert rank.truth["waited_for_ns"] == {str(1 - number): waited[number][1 - number]}


def test_communication_json(ranks: list[Rank]) -> None:
    for rank in ranks:
        found = rank.document("communication.json")
        by_name = {c["name"]: c for c in rank.truth["collectives"]}
        seen = set()
        for step, classes in found.items():
            for kind, operations in classes.items():
                total = operations.pop("Total Op Info")["Communication Time Info"]
                assert total["Elapse Time(ms)"] == pytest.approx(
                    sum(o["Communication Time Info"]["Elapse Time(ms)"] for o in operations.values())
                )
                for key, info in operations.items():
                    said = by_name[key.partition("@")[0]]
                    seen.add(said["name"])
                    assert f"step{said['step']}" == step and kind == ("p2p" if said["group"] == "pp" else "collective")
                    times, bands = info["Communication Time Info"], info["Communication Bandwidth Info"]
                    for title, of in (("Elapse", "elapse"), ("Wait", "wait"), ("Transit", "transit"), ("Idle", "idle")):
                        assert round(times[f"{title} Time(ms)"] * 1e6) == said[f"{of}_ns"]
                    assert round(bands["SDMA"]["Transit Size(MB)"] * 1e6) == said["bytes"]
                    sizes = bands["HCCS"]["Size Distribution"]
                    assert sizes.keys() == {str(said["packet_bytes"] / 1e6)}
                    assert next(iter(sizes.values()))[0] == said["bytes"] / said["packet_bytes"]
        assert seen == set(by_name)
        small = [c for c in rank.truth["collectives"] if c["packet_bytes"] == 4096]
        assert len(small) == len(rank.truth["steps"]) and all(c["bytes"] == 8 * 4096 for c in small)
        links = {
            link
            for step in rank.document("communication_matrix.json").values()
            for c in step.values()
            for o in c.values()
            for link in o
        }
        here = rank.truth["rank"]
        assert links == {f"{here}-{1 - here}", f"{1 - here}-{here}", f"{here}-{here}"}


def test_memory(ranks: list[Rank]) -> None:
    """Totals by adding blocks up; peaks from the series; rows of all kinds are there."""
    for rank in ranks:
        said, rows = rank.truth["memory"], rank.table("operator_memory.csv")
        assert len(rows) == said["blocks"]
        older = [row for row in rows if row["Size(KB)"].startswith("-")]
        assert len(older) == said["older_than_the_window"] == 1
        assert all(not row["Name"] and not row["Allocation Time(us)"] and row["Release Time(us)"] for row in older)
        assert sum(not row["Release Time(us)"] for row in rows) == said["held_at_the_end"] == 2
        assert sum(row["Name"].startswith("cann::") for row in rows) == said["of_the_graph_engine"] > 0
        changes = []
        for row in rows:
            if not row["Name"].startswith("cann::"):
                for when, sign in (("Allocation", 1), ("Release", -1)):
                    if row[f"{when} Time(us)"]:
                        size = sign * abs(Decimal(row["Size(KB)"])) * 1024
                        changes.append((ns(row[f"{when} Time(us)"]), size, row[f"{when} Total Allocated(MB)"]))
        given = Decimal(generator.OLDER_BYTES)
        for _, size, stated in sorted(changes):
            given += size
            assert given == Decimal(stated) * 1024**2
        records = rank.table("memory_record.csv")
        assert Counter(row["Component"] for row in records) == said["records"]
        for what in ("allocated", "reserved"):
            for component, peak in said[f"peak_{what}_bytes"].items():
                column = [row[f"Total {what.title()}(MB)"] for row in records if row["Component"] == component]
                assert max(Decimal(cell) for cell in column) * 1024**2 == peak, (component, what)
        assert all(row["Total Allocated(MB)"] == "" for row in records if row["Component"] == "APP")
        parts = rank.table("npu_module_mem.csv")
        for component, peak in said["peak_of_components_bytes"].items():
            cells = [Decimal(row["Total Reserved(MB)"]) * 1024**2 for row in parts if row["Component"] == component]
            assert cells and (max(cells) == peak if peak is not None else set(cells) == {-1024}), component


def test_planted_things_are_there(ranks: list[Rank]) -> None:
    fast, slow = ranks
    assert [mhz for _, mhz in slow.truth["frequency_mhz"]] == [1800, 1200, 1800]
    assert [mhz for _, mhz in fast.truth["frequency_mhz"]] == [1800]
    for rank in ranks:
        view = View.of(rank)
        assert [[ns(e["ts"]), e["args"]["MHz"]] for e in view.on("AI Core Freq", "C")] == rank.truth["frequency_mhz"]
        garbage = [[ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])] for e in view.on("Python GC")]
        assert garbage == rank.truth["collections_of_garbage"]
        assert {"TransData", "Cast", "NonZero", "MatMulV2"} <= rank.truth["kernels_by_type"].keys()
        assert len(rank.table("data_preprocess.csv")) == rank.truth["kernels_by_core"]["AI_CPU"]["calls"]
        assert sum(int(row["Count"]) for row in rank.table("op_statistic.csv")) == len(rank.kernels)
        assert len(rank.table("api_statistic.csv")) > 5 and len(rank.table("l2_cache.csv")) > 10
        info = json.loads(rank.files[f"profiler_info_{rank.truth['rank']}.json"])
        assert info["rank_id"] == str(rank.truth["rank"]) and info["torch_npu_version"] == "2.7.1"
        assert "SYNTHETIC" in json.loads(rank.files["profiler_metadata.json"])
    assert fast.truth["collections_of_garbage"] and not slow.truth["collections_of_garbage"]
    begin, end = (at for at, _ in slow.truth["frequency_mhz"][1:])
    for row in slow.kernels:
        cycles = row["aic_total_cycles"] if row["Accelerator Core"] == "AI_CORE" else "0"
        if cycles not in ("0", "N/A"):
            mhz = int(cycles) / generator.CUBE_CORES / float(row["aicore_time(us)"])
            dips = begin <= ns(row["Start Time(us)"]) < end
            assert mhz == pytest.approx(1200 if dips else 1800, rel=1e-3)


def test_the_slow_rank_is_waited_for() -> None:
    """Rank 0 waits longer for what comes back in the step in which rank 1 is slow."""
    truth = generator.truth_document(generator.Config(), "a run")["ranks"]["0"]
    first, last = (c["wait_ns"] for c in truth["collectives"] if "receive" in c["name"])
    assert last > 1.3 * first > 0


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recordings of NPUs are in ../shared")
def test_tables_have_the_columns_of_recorded_ones(ranks: list[Rank]) -> None:
    """Of the same version where it is there, of an older one (without a device) elsewhere."""

    def titles(content: bytes) -> list[str]:
        return next(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))

    newest = RECORDED / "qwen3_pp2_dp2_level2/rank_0_20251127123438131_ascend_pt" / OUTPUT
    older = RECORDED / "alexnet_text_level1/rank_0_20250109074804023_ascend_pt" / OUTPUT
    compared = 0
    for name, content in ranks[0].files.items():
        for folder in (newest, older):
            path = folder / Path(name).name
            if path.suffix == ".csv" and path.is_file():
                ours, theirs = titles(content), titles(path.read_bytes())
                assert ours == theirs or (folder == older and [t for t in ours if t != "Device_id"] == theirs), path
                compared += 1
                break
    assert compared == 9


def test_the_trace_view_has_the_events_of_a_recorded_one(ranks: list[Rank]) -> None:
    path = RECORDED / "alexnet_text_level1/rank_0_20250109074804023_ascend_pt" / OUTPUT / "trace_view.json"
    if not path.is_file():
        pytest.skip("the recordings of NPUs are in ../shared")

    def kinds(text: bytes) -> set[tuple[Any, ...]]:
        found = json.loads(text)
        names = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
        return {
            (names[e["pid"]].replace("HCCL", "Communication"), e["ph"], e.get("cat"), type(e["ts"]), type(e.get("id")))
            for e in found
            if e["ph"] != "M"
        }

    ours, theirs = kinds(ranks[0].files[OUTPUT + "trace_view.json"]), kinds(path.read_bytes())
    assert {kind for kind in ours - theirs if kind[0] != "Python GC"} == set()


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        generator.Config(steps=0)


def test_the_command_line_writes_what_the_functions_make(tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    generator.main([str(tmp_path / "run"), "--steps", "1", "--truth", str(truth)])
    config = generator.Config(steps=1)
    assert json.loads(truth.read_text()) == json.loads(json.dumps(generator.truth_document(config, "run")))
    (process, _) = generator.play(config)
    written = tmp_path / "run" / generator.folder_of(process) / OUTPUT / "kernel_details.csv"
    assert written.read_bytes() == generator.texts(process)[f"{OUTPUT}kernel_details.csv"]
    assert re.fullmatch(r"rank_0_\d{17}_ascend_pt", generator.folder_of(process))


def test_the_sample_is_what_the_generator_makes_today() -> None:
    kept = json.loads((SAMPLES / "truth" / "synthetic_ascend.json").read_text())
    config = generator.Config(**kept["config"])
    processes = generator.play(config)
    assert json.loads(json.dumps(generator.truth_document(config, "synthetic_ascend", processes))) == kept
    size = 0
    for process in processes:
        for name, content in generator.texts(process).items():
            assert (SAMPLES / "synthetic_ascend" / generator.folder_of(process) / name).read_bytes() == content
            size += len(content)
    assert size < 300_000


def test_the_databases_are_what_the_generator_makes_today(tmp_path: Path) -> None:
    """Row by row: SQLite writes its own version into a file."""
    size = 0
    for process in generator.play(generator.Config()):
        for name, content in generator.databases(process).items():
            kept = SAMPLES / "synthetic_ascend_db" / generator.folder_of(process) / name
            size += kept.stat().st_size
            if kept.suffix == ".db":
                today = tmp_path / kept.name
                today.write_bytes(content)
                assert dumped(today) == dumped(kept), name
            else:
                assert kept.read_bytes() == content
    assert size < 160_000


def dumped(path: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return list(connection.iterdump())
