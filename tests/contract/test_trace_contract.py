"""What every reader of traces owes for every sample: whole columns, counted events, windows that make up the trace."""

from __future__ import annotations

import gzip
from pathlib import PurePosixPath

import pytest

from tb_plugin.formats.base import ReadOptions, ReadState, no_progress
from tb_plugin.formats.format_entry import as_windowed_reader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.model.trace.window import WindowRequest, choose
from tests.builders import Bytes
from tests.conftest import UNLIKE
from tests.conftest import sample as table_of
from tests.depth import sampled
from tests.samples import OURS, Sample

TRACES = [sample for sample in OURS if sample.model.raw is RawTrace]
TRACES = sampled(TRACES, [sample for sample in TRACES if sample.name in UNLIKE])


@pytest.fixture(scope="module", params=TRACES, ids=lambda sample: sample.name.split(".")[0])
def sample(request: pytest.FixtureRequest) -> Sample:
    chosen: Sample = request.param
    return chosen


@pytest.fixture(scope="module")
def raw(sample: Sample) -> RawTrace:
    """What its reader makes of it."""
    found: RawTrace = sample.read()
    return found


def text_of(sample: Sample, name: str) -> bytes:
    content = (sample.folder / name).read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def test_columns_agree_in_length_and_sections_point_into_the_table(raw: RawTrace) -> None:
    n = len(raw.start_ns)
    for name in ("dur_ns", "name", "category", "kind", "pid", "tid", "correlation", "external_id", "device"):
        assert len(getattr(raw, name)) == n
    for section in ("operators", "python", "device_args", "collectives"):
        rows = getattr(raw, section).row
        assert len(rows) == 0 or (rows.min() >= 0 and rows.max() < n)
    assert raw.device.max(initial=-1) < len(raw.devices)


def test_the_report_accounts_for_every_event(sample: Sample) -> None:
    report = table_of(sample.name).report
    assert report.complete and report.events_dropped == 0
    assert report.events_in_file >= report.events_loaded > 0
    assert report.text_bytes == sum(len(text_of(sample, name)) for name in sample.names)


def test_chunks_change_nothing_and_progress_counts_every_event(sample: Sample, raw: RawTrace) -> None:
    seen: list[ReadState] = []
    by_chunks = sample.reader.read(sample.source, ReadOptions(20_000), seen.append)
    assert seen[-1].events == raw.report.events_in_file
    assert_alike(raw, by_chunks)


def test_compression_and_name_change_nothing(sample: Sample, raw: RawTrace) -> None:
    if len(sample.names) > 1:
        pytest.skip("a profile of several files is known by their names")
    (name,) = sample.names
    text, ending = text_of(sample, name), "".join(PurePosixPath(name).suffixes[-2:]).removesuffix(".gz")
    packed = (sample.folder / name).suffix == ".gz"
    other = Bytes(text, f"a{ending}") if packed else Bytes(gzip.compress(text, 1), f"b{ending}.gz")
    assert_alike(raw, sample.reader.read(other, ReadOptions(), no_progress))


def assert_alike(one: RawTrace, other: RawTrace) -> None:
    assert one.start_ns.tolist() == other.start_ns.tolist() and one.dur_ns.tolist() == other.dur_ns.tolist()
    assert one.kind.tolist() == other.kind.tolist() and one.correlation.tolist() == other.correlation.tolist()
    assert one.strings.take(one.name).to_pylist() == other.strings.take(other.name).to_pylist()
    assert one.report.events_loaded == other.report.events_loaded


def test_a_survey_knows_what_the_table_will_be_and_its_windows_make_up_the_trace(sample: Sample) -> None:
    able = as_windowed_reader(sample.reader)
    if able is None or all(name.endswith((".db", "info_0.json")) for name in sample.names):
        pytest.skip("profiles of this format are opened whole")
    table = table_of(sample.name)
    survey = able.survey(sample.source, ReadOptions(65_536), no_progress)
    assert (survey.origin_ns, survey.end_ns) == (table.origin_ns, table.coverage.end_ns)
    assert survey.label == (table.steps.label if table.steps.recorded else ())
    middle = survey.end_ns // 2
    begun = 0
    for begin, end in ((0, middle), (middle, survey.end_ns + 1)):
        window = choose(survey, WindowRequest(times_ns=(begin, end)), 10**15, 0, 0)
        part = assemble(sample.reader.read(sample.source, ReadOptions(window=window), no_progress))
        begun += int(((part.start_ns >= begin) & (part.start_ns < end)).sum())
        report = part.report
        assert report.events_in_file == table.report.events_in_file
        assert report.events_loaded + report.events_outside == table.report.events_loaded
    assert begun == len(table)
