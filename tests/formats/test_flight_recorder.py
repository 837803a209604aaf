"""Dumps of flight recorders: pickles and JSON say the same; damage is counted, code is refused, references stay bounded."""

from __future__ import annotations

import gzip
import json
import pickle
import random
from typing import Any

import pytest

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import ListedFile
from tb_plugin.formats.flight_recorder.reader import FlightRecorderReader
from tb_plugin.model.flight_recorder import Group, RawFlight, Status, assembled
from tests.flight import EPOCH, as_json, call, dump, read
from tests.formats.sources import DATA, issues, needs_data

READER = FlightRecorderReader()
TWO = dump([call(1), call(2, "broadcast", "started", sizes=((2, 2), (1,)))])


class Evil:
    """What would run code when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("loaded",)


def rows(raw: RawFlight) -> list[dict[str, Any]]:
    return raw.records.to_pylist()


def test_a_record() -> None:
    raw = read(TWO)
    first, second = rows(raw)
    assert first == {
        "record": 0, "group_number": 0, "group": "0", "group_description": "default_pg", "sequence": 1, "p2p_sequence": 0,
        "name": "nccl:all_reduce", "input_sizes": "[[4, 3]]", "output_sizes": "[[4, 3]]", "input_types": "Float",
        "output_types": "Float", "state": "completed", "retired": True, "is_p2p": False, "created_ns": EPOCH + 1000,
        "started_ns": EPOCH + 1100, "completed_ns": EPOCH + 1400, "stated_ns": None, "timeout_ms": 600000,
        "thread": "python 7",
        "stack": "/venv/lib/python3.11/site-packages/torch/distributed/c10d.py(9): all_reduce\n"
        "/home/me/train.py(41): step",
    }  # fmt: skip
    assert second["input_sizes"] == "[[2, 2], [1]]" and second["completed_ns"] is None
    assert raw.groups == (Group("0", "default_pg", (0, 1)),) and raw.status == (Status(0, -1, -1, -1),)
    assert (raw.version, raw.library) == ("2.10", "2.27.3")
    assert (raw.report.events_in_file, raw.report.events_loaded, raw.report.complete) == (2, 2, True)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
def test_every_protocol_says_the_same(protocol: int) -> None:
    assert rows(read(pickle.dumps(TWO, protocol))) == rows(read(TWO))
    assert rows(read(gzip.compress(pickle.dumps(TWO, protocol)))) == rows(read(TWO))


def test_json_says_the_same_without_stacks() -> None:
    raw = read(as_json(TWO))
    assert rows(raw) == [{**row, "stack": None} for row in rows(read(TWO))]
    assert raw.groups == read(TWO).groups and raw.status == read(TWO).status
    assert rows(read(b"\xef\xbb\xbf" + as_json(TWO))) == rows(raw)


@needs_data
def test_recorded_ranks() -> None:
    folder = DATA / "torch215"
    pickled = read((folder / "real_fr_gloo_rank_0").read_bytes())
    text = read((folder / "real_fr_gloo_rank0.json").read_bytes())
    assert [{**row, "stack": None} for row in rows(pickled)] == rows(text)
    made = assembled(pickled).records
    # gloo leaves the state at scheduled; the rank says that it is past both.
    assert made["state"].to_pylist() == ["scheduled"] * 2 and made["finished"].to_pylist() == [True, True]


@pytest.mark.parametrize(
    ("entry", "finished", "duration"),
    [
        (call(3), True, 300),
        (call(3, state="started"), False, None),
        (call(3, state="scheduled"), False, None),
        (call(3, state="scheduled", retired=True), True, None),
        (call(3, state="scheduled", pg_id=1), True, None),  # its group is past number 3
        (call(4, state="scheduled", pg_id=1), False, None),
        (call(3, state="scheduled", pg_id=1, is_p2p=True), False, None),
        (call(3, duration_ms=1.25), True, 1_250_000),
        (call(3, time_discovered_started_ns=None), True, 400),
        (call(3, time_discovered_completed_ns=EPOCH), True, None),  # before it began
    ],
)
def test_what_is_finished_and_how_long_it_took(entry: Any, finished: bool, duration: int | None) -> None:
    status = {"1": {f"last_{what}_collective": 3 for what in ("enqueued", "started", "completed")}}
    made = assembled(read(dump([entry], pg_status=status))).records
    assert made["finished"].to_pylist() == [finished] and made["duration_ns"].to_pylist() == [duration]


@pytest.mark.parametrize(
    ("path", "worker"),
    [
        ("comm_lib_trace_rank_3", "rank3"),
        ("job/nccl_trace_rank_0012", "rank12"),
        ("fr_dump_rank7", "rank7"),
        ("a/real_fr_gloo_rank0.json", "rank0"),
        ("x_rank_2.pickle.gz", "rank2"),
        ("model_rank_3", "rank3"),
        ("nccl_trace_rank_gpu-a.b.c_3", "rank3"),
        ("my_job_3", "rank3"),
        ("comm_traces/rank_3", "rank3"),
        ("0.bin", None),
        ("rank3.pt", None),
        ("trace_rank_x", None),
        ("trace_rank_3.pt.trace.json", None),
        ("trace_rank_" + "1" * 5000, None),
    ],
)
def test_names(path: str, worker: str | None) -> None:
    found = READER.find([ListedFile(path, 1, "f")])
    assert [candidate.worker for candidate in found] == ([] if worker is None else [worker])
    assert all(not candidate.certain and candidate.run == path.rpartition("/")[0] for candidate in found)


def test_a_folder_that_counts_is_the_span() -> None:
    (found,) = READER.find([ListedFile("job/comm_traces/iteration_5/rank_3", 1, "f")])
    assert (found.run, found.worker, found.span) == ("job/comm_traces", "rank3", "5")


def test_first_bytes() -> None:
    assert READER.sniff(pickle.dumps(TWO, 2)) and READER.sniff(as_json(TWO))
    assert not READER.sniff(pickle.dumps({"segments": [], "device_traces": []}))
    assert not READER.sniff(b'{"traceEvents":[]}') and not READER.sniff(b"") and not READER.sniff(b"PK\x03\x04")


@pytest.mark.parametrize("share", [0.5, 0.7, 0.9, 0.999])
@pytest.mark.parametrize("form", ["pickle", "json", "gzip"])
def test_what_is_cut_is_shown_as_far_as_it_goes(form: str, share: float) -> None:
    whole = dump([call(i + 1) for i in range(200)])
    packed = {"pickle": pickle.dumps(whole, 2), "json": as_json(whole), "gzip": gzip.compress(pickle.dumps(whole, 2))}[
        form
    ]
    raw = read(packed[: int(share * len(packed))])
    found = rows(raw)
    everything = rows(read(as_json(whole) if form == "json" else whole))
    assert len(found) > 20 and not raw.report.complete and raw.report.events_dropped
    # The last one may lack what stood behind the cut.
    assert found[:-1] == everything[: len(found) - 1]


def test_entries_that_are_none_are_counted() -> None:
    raw = read(dump([call(1), None, 7, [], {}, {"profiling_name": 5}, call(2)]))
    assert len(rows(raw)) == 2 and issues(raw) == {"bad_record": 5}
    assert (raw.report.events_in_file, raw.report.events_dropped) == (7, 5)


@pytest.mark.parametrize("key", sorted(call(1)))
def test_any_field_may_be_anything(key: str) -> None:
    for value in (None, "", "x" * 10_000, -1, 2**70, 1.5, float("nan"), [], [[]], {}, [None, [None]], True, "\ud800é"):
        raw = read(dump([call(1) | {key: value}, call(2)]))
        assembled(raw)
        assert len(rows(raw)) + sum(issues(raw).values()) == 2
    missing = call(1)
    del missing[key]
    assembled(read(dump([missing, call(2)])))


def test_other_parts_may_be_anything() -> None:
    for key in ("pg_config", "pg_status", "version", "comm_lib_version"):
        for value in (None, [], "x", 5, {"0": None}, {"x": {"ranks": "junk", "last_completed_collective": []}}):
            assert len(rows(read(dump([call(1)], **{key: value})))) == 1
    assert read(dump([call(1)], pg_config={"9": {"name": "", "desc": "d", "ranks": [0, 5, "x"]}})).groups == (
        Group("9", "d", (0, 5)),
    )


@pytest.mark.parametrize(
    "content", [b"", b"{", b"{}", b"[]", b"\x80\x02.", b"\x80\x02}.", pickle.dumps({"entries": 5})]
)
def test_what_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableTrace) as caught:
        read(content)
    assert caught.value.where == "trace_rank_0" and caught.value.do


def test_nothing_is_executed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnreadableTrace, match="would run code"):
        read(pickle.dumps(dump([call(1), Evil()]), 2))
    assert capsys.readouterr().out == ""


def test_references_do_not_multiply_a_small_file() -> None:
    frames = [{"filename": "f" * 400, "line": 1, "name": "n" * 400}] * 250
    sizes = [[7] * 60] * 500
    entry = call(1) | {"frames": frames, "input_sizes": sizes}
    raw = read(dump([entry] * 30_000))  # two bytes each
    assert raw.report.text_bytes < 200_000
    assert issues(raw).keys() == {"too_many"} and 0 < len(rows(raw)) < 3000


def test_mutants_end_in_a_word() -> None:
    content = pickle.dumps(dump([call(i + 1) for i in range(8)]), 2)
    text = as_json(dump([call(i + 1) for i in range(8)]))
    chance = random.Random(14)
    read_whole = 0
    for number in range(600):
        mutant = bytearray(content if number % 2 else text)
        for _ in range(chance.choice((1, 1, 3, 20))):
            at = chance.randrange(len(mutant))
            mutant[at : at + chance.randrange(3)] = bytes(chance.randrange(256) for _ in range(chance.randrange(3)))
        try:
            assembled(read(bytes(mutant)))
            read_whole += 1
        except UnreadableTrace:
            pass
    assert read_whole > 100


def test_json_with_deep_nesting_is_damage() -> None:
    text = as_json(TWO).replace(b'"version"', b'"x": ' + b"[" * 100_000 + b', "version"')
    raw = read(text)
    assert issues(raw).keys() == {"truncated_tail"} and json.loads(as_json(TWO))["entries"] and len(rows(raw)) == 2
