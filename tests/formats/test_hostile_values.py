"""Texts and numbers that nothing can store: they are replaced or set aside, told, and cost nothing else."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tb_plugin import api
from tb_plugin.formats._chrome.interning import LONG_NAME, LONG_NAMES, LONGEST_NAME, Interner
from tb_plugin.formats.ascend.arguments import as_shapes
from tb_plugin.formats.ascend.cluster.documents import groups_in
from tb_plugin.formats.ascend.communication.document import document_in
from tb_plugin.formats.ascend.communication.groups import rank_of
from tb_plugin.formats.ascend.communication.units import scaled_integers
from tb_plugin.formats.ascend.csv_table import read_table
from tb_plugin.formats.ascend.profile_info import metadata_of, settings_in
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stack_files.speedscope import read_speedscope
from tb_plugin.formats.values import to_storable
from tests.builders import facts, model, read, trace


def told(log: IssueLog) -> dict[str, int]:
    return {code: entry.count for (code, _), entry in log.entries.items()}


def test_values_are_made_storable_and_counted():
    source = rb'{"a": ["\ud800x", 123456789012345678901], "\udfff": 18446744073709551615, "b": "\ud83d\ude00"}'
    log = IssueLog()
    found = to_storable(json.loads(source), source, log)
    assert found == {"a": ["\ufffdx", None], "\ufffd": 2**64 - 1, "b": "\U0001f600"}
    assert told(log) == {"lone_surrogate": 2, "far_number": 1}
    assert to_storable(10**30, b"1" + b"0" * 30, numbers=False) == 10**30


@pytest.mark.parametrize("value", [b"1e999", b"-1e400", b'"\xff\xfe"', rb'"\ud800"', b"[1e999]"])
@pytest.mark.parametrize("name", ["worker0.pt.trace.json", "other.json"])
def test_an_odd_argument_costs_itself_alone(value, name):
    """A list beside a scalar has the scalar kept as text, which nobody looks at before it is stored."""
    events = [
        b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{"odd":[1],"good":1}}',
        b'{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3,"dur":1,"args":{"odd":' + value + b',"good":2}}',
        b'{"ph":"X","cat":"cpu_op","name":"c","pid":1,"tid":1,"ts":5,"dur":1,"args":{"odd":3,"good":3}}',
    ]
    raw = read(b'{"schemaVersion":1,"traceEvents":[' + b",".join(events) + b"]}", name=name)
    names = [raw.strings[text] for text in raw.name.tolist()]
    assert [each for each in names if each in "abc"] == ["a", "b", "c"]
    good = next(column for column in raw.others if column.key == "good")
    assert good.value.tolist() == [1, 2, 3]


def test_metadata_holds_nothing_that_cannot_be_stored():
    made = trace().op("a", at=0, dur=1).meta(huge=10**30, host="\ud800name", world_size=2)
    table = model(made.text().encode())
    assert facts(table)["trace.events"] == 1
    assert table.metadata["huge"] is None and table.metadata["world_size"] == 2
    json.dumps(dict(table.metadata), ensure_ascii=False).encode()


def test_settings_of_an_npu():
    log = IssueLog()
    info = settings_in(rb'{"rank_id": 123456789012345678901234, "config": {"common_config": {"_x": "\ud800"}}}', log)
    assert metadata_of(info, {}, 3) == {"distributedInfo": {"backend": "hccl", "rank": 3}, "x": "\ufffd"}
    assert told(log) == {"far_number": 1, "lone_surrogate": 1}
    assert metadata_of({"rank_id": 10**12}, {}, None) == {}


def test_communication_of_an_npu():
    log = IssueLog()
    assert document_in(rb'{"step1": {"\ud800": {"a": 1}}}', log) == {"step1": {"\ufffd": {"a": 1}}}
    assert told(log) == {"lone_surrogate": 1}


def test_a_number_that_times_its_unit_is_none_warns_of_nothing():
    log = IssueLog()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert scaled_integers(pa.array(["1e307", "2"]), 6, log).to_pylist() == [None, 2_000_000]
    assert told(log) == {"bad_cell": 1}


@pytest.mark.parametrize("value", [5, "text", {"a": 1}, None, True])
def test_groups_that_are_no_list(value):
    found = groups_in({"comm_group_parallel_info": value, "collective": value, "p2p": [[0, 1]]}, IssueLog())
    assert found == [{"kind": "stage", "ranks": "0, 1"}]


def test_ranks_of_very_many_digits():
    assert rank_of("9" * 5000) is None
    assert rank_of("0" * 5000 + "7") == 7
    assert rank_of("0" * 10 + "9" * 5000) is None


def test_shapes_of_very_many_digits_stay_texts():
    assert json.loads(as_shapes(f"32,{'9' * 5000};4")) == [[32, "9" * 5000], [4]]


def speedscope(frame: str, weights: list[float]) -> bytes:
    sampled = {"type": "sampled", "name": "t\ud800", "unit": "seconds", "startValue": 0, "endValue": 1}
    profile = {**sampled, "samples": [[0], [0]], "weights": weights}
    schema = "https://www.speedscope.app/file-format-schema.json"
    return json.dumps({"$schema": schema, "shared": {"frames": [{"name": frame}]}, "profiles": [profile]}).encode()


def test_speedscope():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = read_speedscope(speedscope("f\udfff", [1e300, 1.5]), IssueLog())
    assert found.names.to_pylist() == ["f\ufffd"] and found.threads == ("t\ufffd",)


def test_a_table_with_an_absurd_heading_is_left_out_at_once():
    log = IssueLog()
    head = b"Step,Computing" + b"".join(b",x%d" % number for number in range(300_000))
    assert read_table([head + b"\n1,2\n"], log) is None
    assert told(log) == {"many_columns": 300_002}


def test_cells_of_columns_that_are_left_out_are_not_read():
    log = IssueLog()
    count = 2000
    table = read_table([b",".join(b"c%d" % at for at in range(count)) + b"\n" + b",".join([b"7"] * count) + b"\n"], log)
    assert table is not None and len(table.titles) == 512
    assert table.texts("c511").to_pylist() == ["7"] and told(log) == {"many_columns": 1488}


def test_long_names_are_bounded_together():
    interner = Interner()
    for number in range(40):
        interner.names[f"{number}" + "x" * LONGEST_NAME]
    assert interner.cut == 40 and len(set(interner.texts)) == 40
    assert max(map(len, interner.texts)) < LONG_NAME + 100
    many = Interner()
    for number in range(100):
        many.names[f"{number:03}" + "y" * (LONGEST_NAME // 2)]
    assert sum(map(len, many.texts)) < LONG_NAMES + 100 * (LONG_NAME + 100)
    short = Interner()
    for number in range(100):
        short.names[f"{number:03}" + "z" * 4000]
    assert short.cut == 0 and all(len(text) == 4003 for text in short.texts)
    log = IssueLog()
    interner.tell(log)
    assert told(log) == {"long_name": 40}


def test_a_trace_with_a_very_long_name_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "worker0.1.pt.trace.json"
    path.write_bytes(trace().op("n" * (2 * LONGEST_NAME), at=0, dur=1).op("b", at=2, dur=1).bytes())
    profile = api.open(path)
    assert profile.facts["trace.events"] == 2
    assert [issue.count for issue in profile.read.issues if issue.code == "long_name"] == [1]


def test_lone_surrogates_do_not_enter_the_table_of_texts():
    interner = Interner()
    first, second = interner.text("a\ud800"), interner.text("a\ufffd")
    assert first == second == interner.text("a\ud800") and interner.texts == ["a\ufffd"] and interner.replaced == 1


def test_a_timeline_of_centuries_can_be_sent():
    from tb_plugin.payloads.export import to_json
    from tests.builders import part

    made = trace().op("a", at=0, dur=1).op("b", at=2**62 // 1000 - 2000, dur=1)
    assert to_json(part(made.table(), "timeline").payloads)


def test_steps_of_impossible_times_are_none():
    from msgspec.structs import replace

    from tb_plugin.model.trace.assemble import assemble
    from tb_plugin.model.trace.extra_columns import ReportedSteps

    raw = trace().op("a", at=0, dur=10).op("b", at=20, dur=10).raw_trace()
    far = 2**63 - 1
    steps = ReportedSteps(("0", "1"), np.array([-far, 0]), np.array([far, 30_000]))
    table = assemble(replace(raw, reported_steps=steps))
    assert (table.steps.label, table.steps.end_ns.tolist()) == (("1",), [30_000])
    steps = ReportedSteps(("0",), np.array([-far]), np.array([far]))
    assert not assemble(replace(raw, reported_steps=steps)).steps.recorded
