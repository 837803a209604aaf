"""What files say of communication, on a few calls: exact bytes and times, groups, links, rows where nothing else has any."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.formats.ascend import reader as of_reader
from tb_plugin.formats.ascend.communication import document as of_document
from tb_plugin.formats.ascend.communication.calls import calls_in, profile_entries, step_label
from tb_plugin.formats.ascend.communication.document import document_in
from tb_plugin.formats.ascend.communication.groups import number_of, reported_groups
from tb_plugin.formats.ascend.communication.schema import MB, MS, US
from tb_plugin.formats.ascend.communication.steps import steps_of
from tb_plugin.formats.ascend.communication.units import scaled_integers, texts_of
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.job_tables import (
    BANDS,
    GROUPS,
    LINKS,
    OPERATIONS,
    PACKETS,
    SCHEMAS,
    STEP_TIMES,
    reported_table,
)
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import RawTrace
from tests.depth import examples
from tests.formats.ascend.databases import ANALYSED, database, read
from tests.formats.ascend.folders import OUTPUT, Files, Json, codes, files, raw_of, table_of

PP, EMBD = "3985310405473756128", "3985310491373102170"
LIBRARY = {"group_name_19": "pp", "group_name_20": "embd"}


def band(size: Any = 0, time: Any = 0, ratio: Any = 0, **packets: Any) -> Json:
    spread = {key.removeprefix("of_").replace("_", "."): value for key, value in packets.items()}
    return {"Transit Size(MB)": size, "Transit Time(ms)": time, "Bandwidth(GB/s)": 0, "Large Packet Ratio": ratio,
            "Size Distribution": spread}  # fmt: skip


def call(start: Any = 1764246877147674.5, elapse: Any = 2.5, wait: Any = 1.5, sync: Any = 1.0, **bands: Json) -> Json:
    times = {"Start Timestamp(us)": start, "Elapse Time(ms)": elapse, "Transit Time(ms)": 0.75, "Wait Time(ms)": wait,
             "Synchronization Time(ms)": sync, "Idle Time(ms)": 0.25, "Wait Time Ratio": 0.5}  # fmt: skip
    return {"Communication Time Info": times, "Communication Bandwidth Info": bands}


def small() -> dict[str, Any]:
    """A send in a pipeline, and a sum over links of two kinds."""
    send = call(HCCS=band(8.388608, 0.40168, 0, of_8_388608=[1, 0.40168]), SDMA=band(8.388608, 0.40168), RDMA=band())
    summed = call(
        1764246877200000.5, RDMA=band(20.97152, 1, 1.0), HCCS=band(4e-05, 0.001), SIO=band(1e-06, 0.0005), PCIE=band(),
        SDMA=band(4.1e-05, 0.0015),
    )  # fmt: skip
    total = {"Communication Time Info": {"Elapse Time(ms)": 99}, "Communication Bandwidth Info": {"SDMA": band(99, 9)}}
    return {
        "step13": {
            "p2p": {f"hcom_send__128_3_1@{PP}": send, "Total Op Info": total},
            "collective": {f"hcom_allReduce__170_4_1@{EMBD}": summed, f"Total Op Info@{EMBD}": total},
        }
    }


def link(size: Any = 1.5, time: Any = 0.5, kind: Any = "HCCS", **more: Any) -> Json:
    return {"Transport Type": kind, "Transit Size(MB)": size, "Transit Time(ms)": time, "Bandwidth(GB/s)": 3, **more}


def metadata(ranks: list[int], own: int) -> Json:
    groups = {
        library: {"group_name": name, "group_rank": own, "global_ranks": ranks} for library, name in LIBRARY.items()
    }
    return {"parallel_group_info": groups, "distributed_args": {"world_size": 4}}


def told(raw: RawTrace, file: str = "") -> set[str]:
    """What the report tells, but that nothing beside calls has rows."""
    return codes(raw, file) - {"communication_alone"}


def stated(raw: RawTrace, name: str) -> list[Json]:
    table = reported_table(raw.reported_tables, name)
    return [] if table is None else table.to_pylist()


def test_calls_kinds_of_links_and_packets() -> None:
    raw = raw_of(files(communication=small(), profiler_info={"rank_id": 2}))
    send, summed = stated(raw, OPERATIONS)
    assert send == {
        "rank": 2, "step": "13", "kind": "p2p", "operation": "hcom_send__128_3_1", "group": PP,
        "start_ns": 1764246877147674500, "elapse_ns": 2_500_000, "transit_ns": 750_000, "wait_ns": 1_500_000,
        "synchronization_ns": 1_000_000, "idle_ns": 250_000,
    }  # fmt: skip
    assert (summed["kind"], summed["group"], summed["start_ns"]) == ("collective", EMBD, 1764246877200000500)
    bands = [(b["operation"][5:9], b["band"], b["part_of"], b["bytes"], b["transit_ns"]) for b in stated(raw, BANDS)]
    assert bands == [
        ("send", "HCCS", "SDMA", 8388608, 401_680), ("send", "SDMA", None, 8388608, 401_680),
        ("allR", "RDMA", None, 20971520, 1_000_000), ("allR", "HCCS", "SDMA", 40, 1_000), ("allR", "SIO", "SDMA", 1, 500),
        ("allR", "SDMA", None, 41, 1_500),
    ]  # fmt: skip
    (packet,) = stated(raw, PACKETS)
    assert (packet["packet_bytes"], packet["count"], packet["transit_ns"]) == (8388608, 1, 401_680)
    assert told(raw) == set() and raw.report.complete


def test_without_other_rows_calls_are_what_the_device_did() -> None:
    """As the rows of a profile that has the tables of kernels: matched with other ranks by group and order."""
    source = files(
        communication=small(), profiler_metadata=metadata([0, 2], 1),
        step_trace_time="Device_id,Step,Computing,Free\r\n5,13,1,2\r\n",
    )  # fmt: skip
    raw, trace = raw_of(source), table_of(source)
    assert codes(raw, "communication.json") == {"communication_alone"}
    assert trace.strings.take(trace.name).to_pylist() == ["hcom_send__128_3_1", "hcom_allReduce__170_4_1"]
    assert (trace.kind == EventKind.KERNEL).all() and trace.is_collective.all()
    assert [device.id for device in trace.devices] == ["5"] and trace.dur_ns.tolist() == [2_500_000] * 2
    assert trace.steps.label == ("13",) and trace.steps.recorded
    assert (trace.steps.start_ns.tolist(), trace.steps.end_ns.tolist()) == ([0], [52_326_000 + 2_500_000])
    args, text = raw.collectives, raw.strings
    assert [text[i] for i in args.group_name] == [PP, EMBD] and [text[i] for i in args.name] == ["send", "allReduce"]
    assert [text[i] for i in args.group_ranks] == ["[0, 2]"] * 2 and args.group_size.tolist() == [2, 2]
    assert [text[i] for i in args.group_description] == ["pp", "embd"]


def test_kernels_know_their_groups() -> None:
    head = "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us)"
    rows = [
        "13,0,mm,MatMul,AI_CORE,1764246877147000.000\t,3.5",
        "13,0,hcom_send__128_3_1,hcom_send_,COMMUNICATION,1764246877147674.420\t,2500",
        "13,0,hcom_allReduce__170_9_1,hcom_allReduce_,COMMUNICATION,1764246877300000.000\t,7",
        "14,0,hcom_receive__999_0_1,hcom_receive_,COMMUNICATION,1764246877400000.000\t,7",
        "14,0,add,Add,AI_CORE,1764246877399000.000\t,1",
    ]
    raw = raw_of(
        files(kernel_details="\r\n".join((head, *rows)), communication=small(), profiler_metadata=metadata([0, 2], 0))
    )
    args, text = raw.collectives, raw.strings
    assert len(raw.start_ns) == 5, "calls of which the table of kernels has no row are no rows"
    assert [text[raw.name[row]] for row in args.row] == [row.split(",")[2] for row in rows[1:4]]
    # By its begin, by the end of its group's number, and a group that nobody states.
    assert [text[i] for i in args.group_name] == [PP, EMBD, "…999"]
    assert [text[i] for i in args.name] == ["send", "allReduce", "recv"]
    steps = raw.reported_steps
    assert steps is not None and steps.label == ("13", "14")
    first = 1764246877147000_000
    assert steps.start_ns.tolist() == [first, first + 252_000_000] and steps.end_ns[0] == first + 153_000_000 + 7_000


def test_a_step_ends_where_the_next_begins() -> None:
    made = steps_of(["2", None, "1", "1"], *(pa.array(x).to_numpy() for x in ([50, 0, 10, 20], [70, 99, 15, 60])))
    assert made is not None and made.label == ("1", "2")
    assert (made.start_ns.tolist(), made.end_ns.tolist()) == ([10, 50], [50, 70])
    assert steps_of([None], *(pa.array(x).to_numpy() for x in ([1], [2]))) is None


def test_numbers_of_groups_are_made_of_their_names() -> None:
    """As in recordings: the group that a program calls group_name_19 stands in the files under this number."""
    assert [number_of(f"group_name_{n}") for n in (0, 5, 19, 20)] == [
        "5862276093215481612", "5862276114690318097", PP, EMBD,
    ]  # fmt: skip
    assert reported_groups({"x": 5, "y": {"global_ranks": [0, -1], "group_rank": True}, "z": {}}).keys() == {
        number_of("y"), number_of("z"),
    }  # fmt: skip
    assert all(
        group.ranks == () and group.own is None for group in reported_groups({"y": {"global_ranks": ["0"]}}).values()
    )
    assert reported_groups([1, 2]) == {} == reported_groups(None)


def matrix() -> Json:
    return {
        "step13": {
            "p2p": {f"send-top1@{PP}": {"0-1": link(**{"Op Name": "hcom_send__128_3_1"})}},
            "collective": {
                f"allreduce-total@{EMBD}": {"0-0": link(kind="LOCAL"), "0-1": link(4e-05)},
                "allreduce-total@77": {"3-3": link(kind="LOCAL"), "3-0": link()},
                "hcom_allReduce__483_2@9": {"0-7": link(time=0)},
                "Total Op Info": {"0-1": link(99)},
            },
        }
    }


def test_links_are_between_ranks_of_the_job() -> None:
    raw = raw_of(
        files(communication_matrix=matrix(), profiler_metadata=metadata([4, 6], 0), profiler_info={"rank_id": 4})
    )
    found = [
        (row["operation"], row["place"], row["source"], row["destination"], row["in_group"], row["bytes"])
        for row in stated(raw, LINKS)
    ]
    assert found == [
        ("send", "top1", 4, 6, False, 1_500_000),
        ("allreduce", "total", 4, 4, False, 1_500_000), ("allreduce", "total", 4, 6, False, 40),
        # By the link to itself rank 4 stands at place 3; nobody says who stands at place 0.
        ("allreduce", "total", 4, 4, False, 1_500_000), ("allreduce", "total", 3, 0, True, 1_500_000),
        ("hcom_allReduce__483_2", None, 0, 7, True, 1_500_000),
    ]  # fmt: skip
    (note,) = raw.report.issues
    assert (note.code, note.count, note.file) == ("links_in_group", 2, "communication_matrix.json")
    groups = {row["group"]: (row["name"], row["group_rank"], row["ranks"]) for row in stated(raw, GROUPS)}
    assert groups == {PP: ("pp", 0, "4, 6"), EMBD: ("embd", 0, "4, 6"), "77": (None, 3, None), "9": (None, None, None)}


@pytest.mark.parametrize("pair", ["", "0", "a-b", "-1-0", "0-1-2", "0--1", "1e3-1", "99999999-0", "\u0661-0"])
def test_links_that_name_no_two_ranks_are_told(pair: str) -> None:
    found = {"step": {"collective": {"allreduce-total@7": {pair: link(), "0-1": link()}}}}
    raw = raw_of(files(communication_matrix=found, step_trace_time="Step,Free\n1,2\n"))
    assert len(stated(raw, LINKS)) == 1 and "bad_link" in told(raw, "communication_matrix.json")


def test_times_of_steps_in_three_eras() -> None:
    overlaps = "Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble"
    old = f"Step,Computing,{overlaps},Communication(Not Overlapped and Exclude Receive)"
    (row,) = stated(raw_of(files(step_trace_time=f"{old}\n2,75174.57464453117,1,2,3,4,5,6,7\n")), STEP_TIMES)
    assert (row["step"], row["computing_ns"], row["exposed_ns"], row["exposed_without_receive_ns"]) == (
        "2", 75_174_575, 1000, 7000,
    )  # fmt: skip
    new = f"Device_id,{old},Preparing\n"
    (row,) = stated(raw_of(files(step_trace_time=f"{new}4,,231290.09999999995,1,2,3,4,5,6,7,8\n")), STEP_TIMES)
    assert (row["device"], row["step"], row["computing_ns"], row["preparing_ns"]) == (4, None, 231_290_100, 8000)
    raw = raw_of(files(step_trace_time="Step,Computing,Later\n1,2,3\n", communication=small()))
    assert told(raw, "step_trace_time.csv") == {"unknown_column"} and len(stated(raw, STEP_TIMES)) == 1
    raw = raw_of(files(step_trace_time="Step,Later\n1,2\n", communication=small()))
    assert told(raw, "step_trace_time.csv") == {"missing_columns"} and stated(raw, STEP_TIMES) == []


ANALYSED_TABLES: Mapping[str, Any] = {
    "CommAnalyzerTime": [
        ("hcom_send__128_3_1", PP, 1764246877147674.5, 2.5, 0.75, 1.5, 1.0, 0.25, "step13", "p2p"),
        ("hcom_allReduce__170_4_1", EMBD, 1764246877200000.5, 2.5, 0.75, 1.5, 1, 0.25, "step13", "collective"),
    ],
    "CommAnalyzerBandwidth": [
        ("hcom_send__128_3_1", PP, "HCCS", 8.388608, 0.40168, 20.8, 0, 8.388608, 1, 0.40168, "step13", "p2p"),
        ("hcom_send__128_3_1", PP, "HCCS", 8.388608, 0.40168, 20.8, 0, 1, 2, 0.5, "step13", "p2p"),
        ("hcom_send__128_3_1", PP, "SDMA", 8.388608, 0.40168, 20.8, 0, 0, 0, 0, "step13", "p2p"),
    ],
    "CommAnalyzerMatrix": [
        ("send-total", PP, "0", "1", "HCCS", 1.5, 0.5, 3, "step13", "p2p", "hcom_send__128_3_1"),
    ],
}  # fmt: skip


def test_a_database_says_the_same() -> None:
    raw = read({ANALYSED: database(ANALYSED_TABLES)})
    text = raw_of(files(communication=small()))
    assert stated(raw, OPERATIONS) == stated(text, OPERATIONS)
    assert stated(raw, BANDS) == stated(text, BANDS)[:2], "a kind of link once, however many sizes of packets there are"
    assert [(row["packet_bytes"], row["count"]) for row in stated(raw, PACKETS)] == [(8388608, 1), (1_000_000, 2)]
    (row,) = stated(raw, LINKS)
    assert (row["operation"], row["place"], row["bytes"], row["example"]) == (
        "send",
        "total",
        1500000,
        "hcom_send__128_3_1",
    )
    assert raw.strings.take(raw.name).to_pylist() == ["hcom_send__128_3_1", "hcom_allReduce__170_4_1"]


def test_the_database_counts_where_the_text_cannot_be_read() -> None:
    folder = ANALYSED.rpartition("/")[0]
    raw = read({ANALYSED: database(ANALYSED_TABLES), f"{folder}/communication.json": b'{"step13": {"p2p": {'})
    assert len(stated(raw, OPERATIONS)) == 2 and "file_lost" in told(raw, "communication.json")


# ---------------------------------------------------------------------------------------------------- whatever a file holds

ODD = [None, True, [], {}, "x", "N/A", 1e400, "1e999999999", -5, "9" * 400, ["1"], 10**30]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_any_value_may_be_something_else(odd: Any) -> None:
    """Of a number that is none, the cell is empty; all others stay, and rows without a time are no rows."""
    document = small()
    about = document["step13"]["p2p"][f"hcom_send__128_3_1@{PP}"]
    times, hccs = about["Communication Time Info"], about["Communication Bandwidth Info"]["HCCS"]
    times["Start Timestamp(us)"] = times["Wait Time(ms)"] = hccs["Transit Size(MB)"] = hccs["Large Packet Ratio"] = odd
    hccs["Size Distribution"]["8.388608"] = odd
    raw = raw_of(files(communication=document))
    send = stated(raw, OPERATIONS)[0]
    assert (send["start_ns"], send["wait_ns"]) == (None, None) and send["elapse_ns"] == 2_500_000
    assert stated(raw, BANDS)[0]["bytes"] is None and len(stated(raw, BANDS)) == 6
    assert stated(raw, PACKETS) == [] and len(raw.start_ns) == 1
    assert told(raw, "communication.json") or odd in (None, "N/A")


SEND = ("step13", "p2p", f"hcom_send__128_3_1@{PP}")


@pytest.mark.parametrize(
    "place",
    [SEND[:1], SEND[:2], SEND, (*SEND, "Communication Time Info"), (*SEND, "Communication Bandwidth Info")],
    ids=lambda place: place[-1],
)
@pytest.mark.parametrize("odd", [None, 5, "x", [[]], True], ids=repr)
def test_any_part_may_be_of_another_type(place: tuple[str, ...], odd: Any) -> None:
    document = small()
    inside = document
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = odd
    raw = raw_of(files(communication=document, step_trace_time="Step,Free\n1,2\n"))
    assert len(stated(raw, OPERATIONS)) == (
        0 if len(place) == 1 else 2 if len(place) == 4 and "Band" in place[-1] else 1
    )
    assert told(raw, "communication.json") == ({"bad_class"} if len(place) < 3 else {"bad_call"}) or "Band" in place[-1]


def test_bare_words_are_no_values() -> None:
    text = (
        json.dumps(small())
        .replace("1764246877147674.5", "N/A")
        .replace("hcom_allReduce", "N/A hcom")
        .replace("0.75", "NaN")
    )
    raw = raw_of(files(communication=text, step_trace_time="Step,Free\n1,2\n"))
    rows = stated(raw, OPERATIONS)
    assert [row["operation"] for row in rows] == ["hcom_send__128_3_1", "N/A hcom__170_4_1"]
    assert [row["start_ns"] is None for row in rows] == [True, False] and rows[0]["transit_ns"] is None
    (issue,) = (each for each in raw.report.issues if each.code == "bare_word")
    assert issue.count == 3 and issue.file == "communication.json"


@pytest.mark.parametrize("name", ["communication", "communication_matrix"])
@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"[" * 200_000, "file_lost"), (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "file_lost"), (b"", "file_lost"),
        (b"[1]", "file_lost"), (b"7", "file_lost"), (b'{"step13": {"p2p"', "file_lost"), (b"\xff\xfe\0\0", "file_lost"),
        (b"N/A" * 3, "file_lost"),
    ],
    ids=lambda value: str(value)[:16],
)  # fmt: skip
def test_a_file_that_cannot_be_read_takes_nothing_else_along(name: str, content: bytes, code: str) -> None:
    source = files(step_trace_time="Step,Free\n1,2\n", profiler_info={"rank_id": 1})
    raw = raw_of(Files({**source.content, f"{OUTPUT}{name}.json": content}))
    assert told(raw) == {code} == told(raw, f"{name}.json")
    assert [table.name for table in raw.reported_tables] == [STEP_TIMES]


def test_large_files_are_refused_before_they_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_document, "MOST_VALUES", 1000)
    for content in (b'{"a": "' + b"x" * (1 << 16) + b'"}', b'{"a": [' + b"[],[" * 500, b"{" + b'"a":1,' * 1001 + b"}"):
        log = IssueLog()
        assert document_in(content, log, 1 << 16) is None
        assert [issue.code for issue in log.issues()] == ["too_large"]


def test_an_archive_that_unpacks_to_more_is_read_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_reader, "MOST_DOCUMENT_BYTES", 1 << 21)
    bomb = gzip.compress(b"{" + b" " * (1 << 25) + b"}")
    source = files(step_trace_time="Step,Free\n1,2\n")
    raw = raw_of(Files({**source.content, f"{OUTPUT}communication.json": bomb}))
    assert told(raw, "communication.json") == {"too_large"} and raw.report.text_bytes < 1 << 23
    assert [table.name for table in raw.reported_tables] == [STEP_TIMES]


def test_names_are_data() -> None:
    name = "<img src=x onerror=alert(1)>@a+)+$'; DROP TABLE x"
    raw = raw_of(files(communication={"step1": {"collective": {f"hcom_x{name}": call()}}}))
    operation, _, group = f"hcom_x{name}".rpartition("@")
    assert [(row["operation"], row["group"]) for row in stated(raw, OPERATIONS)] == [(operation, group)]


@pytest.mark.parametrize(
    ("text", "power", "expected"),
    [
        ("8.388608", MB, 8388608), ("880.9328959999999", MB, 880932896), ("9.6e-05", MB, 96), ("0", MB, 0),
        ("1764246877147674.212", US, 1764246877147674212), ("0.0000005", MS, 0), ("0.0000015", MS, 2),
        ("0.86381540625", MS, 863815), ("158.55328", MS, 158553280), ("9100000000000.775806", MS, 9100000000000775806),
        ("1e13", MS, None), ("-1", MS, None), ("x", MS, None), ("inf", MS, None), ("nan", MS, None), ("", MS, None),
    ],
)  # fmt: skip
def test_decimals_are_exact(text: str, power: int, expected: int | None) -> None:
    assert scaled_integers(texts_of([text], IssueLog()), power, IssueLog()).to_pylist() == [expected]


MOVED = st.integers(0, 10**9)
CALLS = st.lists(
    st.tuples(st.sampled_from(["p2p", "collective"]), st.integers(0, 3), MOVED, MOVED, MOVED, MOVED), max_size=12
)


def document_of(calls: list[tuple[str, int, int, int, int, int]], order: random.Random | None = None) -> Json:
    """Calls with bytes over RDMA and three kinds of links that are SDMA."""
    made: dict[str, Json] = {"p2p": {}, "collective": {}}
    places = list(enumerate(calls))
    if order is not None:
        order.shuffle(places)
    for number, (kind, group, rdma, *parts) in places:
        sizes = dict(zip(("HCCS", "PCIE", "SIO"), parts, strict=True))
        bands = {name: band(size / 1e6, size / 1e6) for name, size in sizes.items()}
        bands |= {"SDMA": band(sum(parts) / 1e6, sum(parts) / 1e6), "RDMA": band(rdma / 1e6, 1)}
        made[kind][f"hcom_x__{number}@{group}"] = call(**bands)
    return {"step1": made}


@examples(suite=20, deep=500)
@given(CALLS, st.randoms(use_true_random=False))
def test_bands_that_count_sum_up_to_what_moved(calls: list[Any], order: random.Random) -> None:
    """SDMA is its parts: the sum over bands that are part of nothing is each byte once, in whatever order calls stand."""
    tables = [
        calls_in(profile_entries(json.loads(json.dumps(document), parse_float=str), 0, IssueLog()), IssueLog())
        for document in (document_of(calls), document_of(calls, order))
    ]
    rows = tables[0][BANDS].to_pylist()
    assert sum(row["bytes"] for row in rows if row["part_of"] is None) == sum(sum(one[2:]) for one in calls)
    parts = sum(row["bytes"] for row in rows if row["part_of"] == "SDMA")
    assert parts == sum(row["bytes"] for row in rows if row["band"] == "SDMA")
    for name in (OPERATIONS, BANDS):
        first, second = (sorted(map(str, table[name].to_pylist())) for table in tables)
        assert first == second


def test_a_part_alone_counts_by_itself() -> None:
    document = {"step": {"collective": {"a@1": call(HCCS=band(1, 1)), "b@1": call(HCCS=band(1, 1), SDMA=band(1, 1))}}}
    rows = stated(raw_of(files(communication=document)), BANDS)
    assert [(row["operation"], row["band"], row["part_of"]) for row in rows] == [
        ("a", "HCCS", None), ("b", "HCCS", "SDMA"), ("b", "SDMA", None),
    ]  # fmt: skip
    assert {row["step"] for row in rows} == {None} and step_label("step") is None and step_label("step7") == "7"


def test_tables_have_the_columns_that_views_share() -> None:
    raw = raw_of(
        files(communication=small(), communication_matrix=matrix(), profiler_metadata=metadata([0, 2], 0),
              step_trace_time="Step,Free\n1,2\n")
    )  # fmt: skip
    assert [table.name for table in raw.reported_tables] == list(SCHEMAS)
    for table in raw.reported_tables:
        found = reported_table(raw.reported_tables, table.name)
        assert found is not None and found.schema == pa.schema(SCHEMAS[table.name])
        assert all(column.values.null_count < len(column.values) for column in table.columns)
