"""What every reader owes for every sample: found by name, known by its first bytes, read whole and alike."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tb_plugin.errors import UnreadableTrace
from tb_plugin.readers import READERS
from tb_plugin.readers.base import ListedFile, Reader, ReadOptions, ReadState, no_progress, windowed
from tb_plugin.trace.assemble import assemble
from tb_plugin.trace.table import RawTrace
from tb_plugin.trace.window import Asked, choose
from tests.builders import Bytes, trace
from tests.conftest import SAMPLE_FILES, SAMPLES


@pytest.fixture(scope="module", params=SAMPLE_FILES, ids=lambda name: name.split(".")[0])
def content(request: pytest.FixtureRequest) -> bytes:
    return (SAMPLES / request.param).read_bytes()


def text_of(content: bytes) -> bytes:
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def reader_of(content: bytes) -> Reader:
    return next(reader for reader in READERS if reader.sniff(text_of(content)[:65_536]))


def raw(content: bytes, name: str = "x.json", chunk_bytes: int = 512 * 1024) -> RawTrace:
    return reader_of(content).read(Bytes(content, name), ReadOptions(chunk_bytes), no_progress)


def test_every_sample_is_found_by_its_name() -> None:
    listing = [ListedFile(name, Path(SAMPLES / name).stat().st_size, "f") for name in SAMPLE_FILES]
    found = [candidate for reader in READERS for candidate in reader.find(listing)]
    assert {candidate.run for candidate in found} == {name.split("/")[0] for name in SAMPLE_FILES}
    assert {candidate.names for candidate in found} == {(name,) for name in SAMPLE_FILES}
    certain = [candidate.names for candidate in found if candidate.certain]
    assert len(certain) == len(set(certain)), "two readers are certain of one name"


def test_a_reader_knows_it_and_signs_for_it(content: bytes) -> None:
    assert raw(content).report.format == reader_of(content).id


def test_columns_agree_in_length_and_sections_point_into_the_table(content: bytes) -> None:
    found = raw(content)
    n = len(found.start_ns)
    for name in ("dur_ns", "name", "category", "kind", "pid", "tid", "correlation", "external_id", "device"):
        assert len(getattr(found, name)) == n
    for section in ("operators", "python", "device_args", "collectives"):
        rows = getattr(found, section).row
        assert len(rows) == 0 or (rows.min() >= 0 and rows.max() < n)
    assert found.device.max(initial=-1) < len(found.devices)


def test_the_report_accounts_for_every_event(content: bytes) -> None:
    report = raw(content).report
    assert report.complete and report.events_dropped == 0
    assert report.events_seen >= report.events_kept > 0
    assert report.text_bytes == len(text_of(content)) and report.file_bytes == len(content)


def test_compression_name_and_chunks_change_nothing(content: bytes) -> None:
    plain = text_of(content)
    one = raw(plain, "a.json", 20_000)
    other = raw(gzip.compress(plain, 1), "b.pt.trace.json.gz")
    assert one.start_ns.tolist() == other.start_ns.tolist() and one.dur_ns.tolist() == other.dur_ns.tolist()
    assert [one.strings[i] for i in one.name[:500]] == [other.strings[i] for i in other.name[:500]]
    assert one.report.events_kept == other.report.events_kept


def test_progress_grows_to_one(content: bytes) -> None:
    seen: list[ReadState] = []
    table = reader_of(content).read(Bytes(content), ReadOptions(65_536), seen.append)
    fractions, events = [state.fraction for state in seen], [state.events for state in seen]
    assert fractions == sorted(fractions) and fractions[0] >= 0 and fractions[-1] == pytest.approx(1)
    assert events == sorted(events) and events[-1] == table.report.events_seen
    assert all(sum(state.counts.values()) == state.events for state in seen)


def test_a_survey_knows_what_the_table_will_be_and_its_windows_make_up_the_trace(content: bytes) -> None:
    reader = reader_of(content)
    able = windowed(reader)
    if able is None:
        pytest.skip("profiles of this format are opened whole")
    table = assemble(raw(content))
    survey = able.survey(Bytes(content), ReadOptions(65_536), no_progress)
    assert (survey.origin_ns, survey.end_ns) == (table.origin_ns, table.coverage.end_ns)
    assert survey.label == (table.steps.label if table.steps.recorded else ())
    middle = survey.end_ns // 2
    begun = 0
    for begin, end in ((0, middle), (middle, survey.end_ns + 1)):
        window = choose(survey, Asked(times_ns=(begin, end)), 10**15, 0, 0)
        part = assemble(reader.read(Bytes(content), ReadOptions(window=window), no_progress))
        begun += int(((part.start_ns >= begin) & (part.start_ns < end)).sum())
        report = part.report
        assert report.events_seen == table.report.events_seen
        assert report.events_kept + report.events_outside == table.report.events_kept
    assert begun == len(table)


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.id)
@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2]", b"no json", b'"text"', b"\x1f\x8b garbage", b'{"a": [1]}'])
def test_what_is_no_trace_is_said_so(reader: Reader, content: bytes) -> None:
    with pytest.raises(UnreadableTrace) as error:
        reader.read(Bytes(content), ReadOptions(), no_progress)
    assert error.value.what and error.value.do


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.id)
def test_a_consumer_may_stop_the_read(reader: Reader) -> None:
    def stop(state: ReadState) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reader.read(Bytes(trace().op("a", 0, 1).bytes()), ReadOptions(), stop)
