"""The file of a rank summary: what goes in comes out, and nothing of a hostile one is believed."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.payloads import StepInfo
from tb_plugin.service import part_codec
from tb_plugin.service.summaries import format
from tb_plugin.service.summaries.compute import part_with_borrowed
from tb_plugin.service.summaries.format import (
    MOST_BYTES,
    MOST_MESSAGES,
    Settings,
    SummaryHeader,
    SummaryRefused,
    Wanted,
    check_values,
    content_of,
    decode_unchecked,
    dump,
    is_plain,
    read_header,
)
from tb_plugin.service.workers.parse import read_info
from tb_plugin.storage.checksum import with_checksum, without_checksum
from tb_plugin.views.distributed.rank.profile import FACTS, NEVER_NULL, part_shapes, schema_hash
from tb_plugin.views.distributed.rank.reported import RANK, ranks_at_least
from tb_plugin.views.distributed.view import Distributed
from tests.conftest import SAMPLE_FILES, UNLIKE, sample
from tests.depth import DEEP

DDP = next(name for name in SAMPLE_FILES if name.startswith("synthetic_ddp/"))
FILES = (("rank0.1.pt.trace.json.gz", 123),)
WANTED = Wanted(FILES, Settings())


def about(**changes):
    report = read_info(sample(DDP).report)
    made = SummaryHeader(schema_hash(), list(FILES), Settings(), 0, [], report)
    return msgspec.structs.replace(made, **changes)


def part():
    return Distributed().part(sample(DDP), Params())


@pytest.fixture(scope="module")
def whole():
    return dump(part(), about())


def checked_part(content, wanted):
    result, _ = decode_unchecked(content, wanted)
    check_values([result])
    return result


def refused(content, wanted=WANTED):
    with pytest.raises(SummaryRefused) as caught:
        checked_part(content, wanted)
    return str(caught.value)


def packed(body, **changes):
    """A summary with this body of a part, sealed as if all were well."""
    head = msgspec.json.encode(about(part_bytes=len(body), **changes), order="deterministic")
    return b"torch-trace rank summary 1\n" + with_checksum(head + b"\n" + pa.compress(body, codec="zstd", asbytes=True))


def with_frame(name, table):
    """A summary of a part whose table of that name is another one."""
    made = part()
    frame = next(iter(made.frames.values()))
    frames = dict(made.frames) | {name: type(frame)(name, name, [], table, (), "")}
    return packed(part_codec.dump(type(made)(made.coverage, made.facts, frames, steps=made.steps)))


@pytest.mark.parametrize("name", UNLIKE)
def test_parts_of_all_samples_have_the_shapes_that_are_expected(name):
    made = part_with_borrowed(Distributed(), sample(name))
    for key, frame in made.frames.items():
        assert frame.data.schema.equals(part_shapes()[key]), key
    again = checked_part(dump(made, about()), WANTED)
    assert part_codec.dump(again) == part_codec.dump(made)


def test_a_summary_states_what_it_is_of(whole):
    told = read_header(whole)
    assert (told.files, told.stamp, told.settings) == (list(FILES), schema_hash(), Settings())
    assert told.part_bytes == len(part_codec.dump(part()))
    assert dump(part(), about()) == whole


def test_other_files_settings_and_versions_are_refused(whole):
    assert refused(whole, Wanted((("rank0.1.pt.trace.json.gz", 124),), Settings())) == "belongs to another trace file"
    assert "other settings" in refused(whole, Wanted(FILES, Settings("step .*")))
    assert checked_part(whole, Wanted(None, Settings())).facts == part().facts
    assert refused(dump(part(), about(stamp="0"))) == "was written by another version"
    assert refused(whole.replace(b"summary 1\n", b"summary 2\n", 1)) == "was written by another version"
    assert refused(packed(part_codec.dump(part())).replace(b'"stamp"', b'"stomp"', 1)) == "is damaged"


def test_every_cut_and_every_changed_byte_is_refused(whole):
    every = 1 if DEEP else 37
    for end in range(0, len(whole), every):
        assert refused(whole[:end])
    for at in range(0, len(whole), every):
        assert refused(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
    assert refused(b"") and refused(b"\0" * 1000) and refused(whole + b"x")


def test_mutants_behind_a_right_checksum_raise_nothing_else():
    body = part_codec.dump(part())
    rng = np.random.default_rng(1)
    for _ in range(2000 if DEEP else 150):
        changed = bytearray(body[9:])
        for at in rng.integers(0, len(changed), 3):
            changed[at] = rng.integers(256)
        try:
            checked_part(packed(with_checksum(bytes(changed))), WANTED)
        except SummaryRefused as error:
            assert str(error)


def test_a_part_that_is_larger_than_it_says_or_far_too_large(whole):
    head, _, _ = whole.partition(b"\n")
    body = part_codec.dump(part())
    for size in (0, -1, 10, len(body) - 1, len(body) + 1, 2**40):
        stated = msgspec.json.encode(about(part_bytes=size), order="deterministic")
        content = head + b"\n" + with_checksum(stated + b"\n" + pa.compress(body, codec="zstd", asbytes=True))
        assert refused(content)
    bomb = pa.compress(b"\0" * 50_000_000, codec="zstd", asbytes=True)
    stated = msgspec.json.encode(about(part_bytes=50_000_000), order="deterministic")
    assert "size" in refused(head + b"\n" + with_checksum(stated + b"\n" + bomb))


def test_what_a_summary_states_is_bounded_before_it_is_made(whole, monkeypatch):
    step = StepInfo("0", 0, 1)
    made = read_header(whole)
    room = len(whole) + 2 * made.part_bytes
    for many in ({"steps": [step] * 60_000}, {"files": [("", 0)] * 600_000}):
        content = packed(part_codec.dump(part()), **many)
        with monkeypatch.context() as patched:
            patched.setattr(format.msgspec.json, "decode", None)
            assert refused(content) == "reports too many steps"
        with pytest.raises(SummaryRefused, match="too many steps"):
            dump(part(), about(**many))
    assert checked_part(dump(part(), about(steps=[step] * 20_000)), WANTED)
    _, size = decode_unchecked(whole, WANTED, room)
    assert size > made.part_bytes, "steps are objects"
    for lacks in (made.part_bytes - 1, made.part_bytes + len(whole) - 1):
        with pytest.raises(SummaryRefused, match="does not fit"):
            decode_unchecked(whole, WANTED, lacks)
    assert decode_unchecked(whole, WANTED, made.part_bytes + len(whole))
    kept = msgspec.msgpack.decode(part_codec.dump(part())[9:])
    labels = [f"step {i}" for i in range(50_000)]
    content = packed(with_checksum(msgspec.msgpack.encode({**kept, "steps": labels})))
    with pytest.raises(SummaryRefused, match="does not fit"):
        decode_unchecked(content, WANTED, 2_000_000)


def test_a_file_is_not_read_to_find_that_it_is_too_large(tmp_path):
    with (tmp_path / "large").open("w+b") as stream:
        for size, why in ((MOST_BYTES + 1, "is too large"), (1001, "does not fit in memory")):
            stream.truncate(size)
            with pytest.raises(SummaryRefused, match=why):
                content_of(stream, 1000)
            assert stream.tell() == size, "its end was looked for, nothing read"
        stream.truncate(1000)
        assert len(content_of(stream, 1000)) == 1000


def test_tables_that_no_part_has():
    calls = part().frames["collectives"].data
    other = calls.set_column(0, "call", pa.array(["0"] * len(calls)))
    assert refused(with_frame("collectives", other)) == "has unexpected columns"
    assert refused(with_frame("collectives", calls.drop_columns(["dtype"]))) == "has unexpected columns"
    assert refused(with_frame("notes", calls)) == "contains an unknown table"
    place = calls.column_names.index("start_ns")
    null = calls.set_column(place, "start_ns", pa.nulls(len(calls), pa.int64()))
    assert refused(with_frame("collectives", null)) == "lacks values"
    assert refused(with_frame(RANK, part_shapes()[RANK].empty_table())) == "lacks tables"
    assert {"alone", "ranks_at_least"} < set(NEVER_NULL[RANK]) and ranks_at_least(
        {RANK: part_shapes()[RANK].empty_table()}
    ) == 0
    splits = pa.array([[1, None]] * len(calls), pa.list_(pa.int64()))
    gap = calls.set_column(calls.column_names.index("sent_splits"), "sent_splits", splits)
    assert refused(with_frame("collectives", gap)) == "lacks values"
    far = calls.set_column(place, "start_ns", pa.array([-(2**63)] * len(calls)))
    assert refused(with_frame("collectives", far)) == "contains impossible numbers"
    made = part()
    less = {name: frame for name, frame in made.frames.items() if name != "steps"}
    assert refused(packed(part_codec.dump(type(made)(made.coverage, made.facts, less)))) == "lacks tables"
    facts = {"overview.step_time_mean_ns": 1}
    assert "unknown data" in refused(packed(part_codec.dump(type(made)(made.coverage, facts, made.frames))))


def with_facts(changed):
    """A summary whose part states these facts, whatever they are, sealed as if all were well."""
    body = msgspec.msgpack.decode(without_checksum(part_codec.dump(part())))
    body["facts"] |= changed
    return packed(with_checksum(msgspec.msgpack.encode(body)))


@pytest.mark.parametrize("name", [*FACTS])
def test_facts_that_no_rank_states_are_refused(name):
    stated = part().facts[name]
    assert checked_part(with_facts({name: stated}), WANTED).facts == part().facts
    for value in ([1], [], {}, {"rank": 1}, "1", "", "x" * 10_000_000, b"1", 2**64 - 1):
        assert refused(with_facts({name: value})) in ("is damaged", f"has an impossible value for {name}")
    for value in (1.5, 1.0, float("nan"), float("inf"), 2**63, -(2**63), 2**62 + 1, -(2**62) - 1):
        assert refused(with_facts({name: value})) == f"has an impossible value for {name}"
    for value in (True, False):
        assert refused(with_facts({name: value}))
    if name != "distributed.base_time_ns":
        assert refused(with_facts({name: -1})) == f"has an impossible value for {name}"
    if name in ("distributed.rank", "distributed.world_size"):
        assert refused(with_facts({name: 2**24})) == f"has an impossible value for {name}"
    if name == "distributed.calls":
        assert refused(with_facts({name: stated + 1})) == refused(with_facts({name: None}))
    else:
        assert checked_part(with_facts({name: None}), WANTED).facts[name] is None


def test_a_fact_that_nobody_knows_is_refused():
    for name in ("distributed.ranks", "distributed.", "", "x" * 1_000_000):
        assert refused(with_facts({name: 1})) == "contains unknown data"


def test_text_that_is_no_text_is_refused():
    calls = part().frames["collectives"].data
    count, place = len(calls), calls.column_names.index("group")

    def summary(offsets: np.ndarray, text: bytes, first: int = 0) -> bytes:
        """A summary whose groups are those bytes, a character each; ``first`` is the place of the first call's."""
        texts = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))
        places = pa.array(np.array([first, *range(1, count)], np.int32))
        column = pa.DictionaryArray.from_arrays(places, texts, safe=False)
        return with_frame("collectives", calls.set_column(place, "group", column))

    offsets = np.arange(count + 1, dtype=np.int32)
    assert checked_part(summary(offsets, b"a" * count), WANTED)
    assert refused(summary(offsets, b"\xff" * count)) == "is damaged"
    for first in (-1, count, 2**30):
        assert refused(summary(offsets, b"a" * count, first)) == "is damaged"
    offsets = offsets.copy()
    offsets[count // 2] = 2**30
    with pytest.raises(SummaryRefused):
        checked_part(summary(offsets, b"a" * count), WANTED)


def test_the_stamp_speaks_of_columns_and_meaning(monkeypatch):
    from tb_plugin.views.distributed.rank import profile as part_schema

    before = schema_hash()
    part_schema.schema_hash.cache_clear()
    monkeypatch.setattr(part_schema, "MEANING", part_schema.MEANING + 1)
    changed = part_schema.schema_hash()
    part_schema.schema_hash.cache_clear()
    assert changed != before and format.FORMAT == 1


def written(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("name", ["steps", "collectives"])
def test_a_table_that_is_packed_once_more_is_refused(monkeypatch, codec, name):
    # Each in turn: a table of numbers, and one whose dictionaries alone are packed.
    data = part().frames[name].data
    plain = written(data)
    packed_once_more = written(data, compression=codec)
    assert is_plain(plain) and not is_plain(packed_once_more)
    monkeypatch.setattr(
        part_codec, "_write", lambda table: packed_once_more if table.schema == data.schema else written(table)
    )
    assert refused(with_frame(name, data)) == "uses an unknown compression"


def test_a_dictionary_alone_may_be_packed():
    data = part().frames["collectives"].data
    readers = [pa.ipc.MessageReader.open_stream(pa.py_buffer(written(data, compression=c))) for c in (None, "zstd")]
    sink = pa.BufferOutputStream()
    for plain, packed_too in zip(*readers, strict=True):
        (packed_too if plain.type == "dictionary" else plain).serialize_to(sink)
    assert not is_plain(bytes(sink.getvalue()))


def test_a_stream_of_endless_empty_batches_and_cut_ones():
    data = part().frames["steps"].data
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        for _ in range(MOST_MESSAGES):
            writer.write_table(data.slice(0, 1))
    assert not is_plain(bytes(sink.getvalue()))
    whole = written(data)
    for end in range(0, len(whole), 7):
        try:
            is_plain(whole[:end])
        except (ValueError, OSError, pa.ArrowException):
            continue


def test_lists_longer_than_any_part_has_are_refused_before_they_are_made():
    kept = msgspec.msgpack.decode(part_codec.dump(part())[9:])
    many, frame = [""] * 100_001, {"kind": "figures", "name": "", "title": "", "figures": []}
    coverage = {**kept["coverage"], "steps": many}
    calls = {**kept["frames"]["collectives"], "row_key": [""] * 1001}
    changes = [
        {"steps": many}, {"coverage": coverage}, {"layout": [""]}, {"payloads": {"one": frame}},
        {"frames": {**kept["frames"], "collectives": calls}}, {"facts": {f"distributed.{i}": 1 for i in range(1001)}},
    ]  # fmt: skip
    assert checked_part(packed(with_checksum(msgspec.msgpack.encode(kept))), WANTED)
    for change in changes:
        body = with_checksum(msgspec.msgpack.encode({**kept, **change}))
        with pytest.raises(msgspec.ValidationError, match="of length <= "):
            msgspec.msgpack.decode(body[9:], type=format._Stored)
        # Nothing that is packed so well is unpacked at all.
        assert refused(packed(body))
