"""What every reader owes for every sample of its format: found by name, known by its first bytes, read whole and alike.

The table of samples is what a scan finds (tests/samples.py), the toy format of the tests included: it is another reader
with another model. What is asked of traces alone stands in test_trace_contract.py.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from tb_plugin import registry
from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.base import Candidate, FileSize, ListedFile, Reader, ReadOptions, ReadState, no_progress
from tests import toy
from tests.builders import Bytes
from tests.depth import sampled
from tests.samples import ALL, EVERY, SAMPLES, Sample, made, scanned

EVERY_READER = (*registry.readers(), *toy.READERS)
NO_PROFILES = (
    "torch_trace_titles",
    "README.md",
    "synthetic.py",
    "synthetic_ascend.py",
    "synthetic_ascend_cluster.py",
    "synthetic_faults.py",
    "synthetic_job.py",
    "jobs/",
    "events.py",
    "gpu_training/",
    "megengine_training/",
    "npu_training/",
    "synthetic_graphs.py",
    "synthetic_serving.py",
    "synthetic_megengine.py",
    "synthetic_memory.py",
    "faults/",
    "scripts/",
    "truth/",
)
"""What else lies below samples/."""


@pytest.fixture(params=ALL, ids=lambda sample: sample.name.split(".")[0])
def sample(request: pytest.FixtureRequest) -> Sample:
    chosen: Sample = request.param
    return chosen


def first_of(reader: Reader) -> Sample:
    """The smallest sample of a format."""
    return min((sample for sample in ALL if sample.reader.id == reader.id), key=lambda sample: sample.size_bytes)


def listed(sample: Sample) -> Sequence[ListedFile]:
    files = [path for path in sorted(sample.folder.rglob("*")) if path.is_file()]
    return [ListedFile(path.relative_to(sample.folder).as_posix(), path.stat().st_size, "f") for path in files]


@pytest.mark.parametrize("reader", EVERY_READER, ids=lambda r: r.id)
def test_every_reader_has_a_sample(reader: Reader) -> None:
    assert first_of(reader).reader is reader


def test_every_file_of_the_samples_belongs_to_one() -> None:
    taken = [name for sample in EVERY for name in sample.names]
    assert len(taken) == len(set(taken))
    files = {path.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("*") if path.is_file()}
    left = {name for name in files - set(taken) if not name.startswith(NO_PROFILES) and "__pycache__" not in name}
    assert left == set(), "no reader takes them"
    told = {path for path, _ in scanned(SAMPLES, registry.readers()).skipped}
    assert not {name for name in taken if any(path.endswith(name) for path in told)}, "taken, and told as skipped"


def test_its_reader_finds_it_by_name_and_knows_its_first_bytes(sample: Sample) -> None:
    found = [candidate for candidate in sample.reader.find(listed(sample)) if set(candidate.names) & set(sample.names)]
    (candidate,) = found
    assert isinstance(candidate, Candidate) and candidate.reader == sample.reader.id
    assert set(candidate.names) == set(sample.names)


def test_no_two_readers_are_certain_of_one_file(sample: Sample) -> None:
    certain = [
        candidate
        for reader in EVERY_READER
        for candidate in reader.find(listed(sample))
        if candidate.certain and set(candidate.names) & set(sample.names)
    ]
    assert len(certain) <= 1


def test_it_returns_what_its_model_is_made_of_and_signs_for_it(sample: Sample) -> None:
    raw = sample.read()
    assert type(raw) is sample.reader.raw is sample.model.raw
    table = sample.model.assemble(raw)
    assert type(table) is sample.model.type
    report = sample.model.outline(table).report
    assert report.format == sample.reader.id and report.complete
    assert report.file_bytes == sample.size_bytes


def test_a_model_comes_back_from_its_file(sample: Sample, tmp_path: Path) -> None:
    path = str(tmp_path / "kept")
    sample.model.write(made(sample.name), path)
    again = sample.model.read(path)
    assert type(again) is sample.model.type
    one, other = sample.model.outline(made(sample.name)), sample.model.outline(again)
    assert one.report.format == other.report.format and list(one.steps) == list(other.steps)


@pytest.mark.parametrize("sample", sampled(ALL, [first_of(reader) for reader in EVERY_READER]), ids=lambda s: s.name)
def test_progress_grows_to_one(sample: Sample) -> None:
    seen: list[ReadState] = []
    sample.reader.read(sample.source, ReadOptions(65_536), seen.append)
    fractions, events = [state.fraction for state in seen], [state.events for state in seen]
    assert fractions == sorted(fractions) and fractions[0] >= 0 and fractions[-1] == pytest.approx(1)
    assert events == sorted(events)
    assert all(sum(state.counts.values()) == state.events for state in seen)


def test_the_memory_it_asks_for_grows_with_the_file(sample: Sample) -> None:
    def need(times: int) -> int:
        return sample.reader.peak_memory_bytes({name: FileSize(times * 1_000_000) for name in sample.names})

    assert 0 < need(1) < need(10) < need(100)
    assert need(100) < 100 * 1_000_000 * 1000 * len(sample.names)


@pytest.mark.parametrize("reader", EVERY_READER, ids=lambda r: r.id)
@pytest.mark.parametrize("content", [b"", b"{}", b"[1, 2]", b"no json", b'"text"', b"\x1f\x8b garbage", b'{"a": [1]}'])
def test_what_is_no_trace_is_said_so(reader: Reader, content: bytes) -> None:
    with pytest.raises(UnreadableTrace) as error:
        reader.read(Bytes(content, first_of(reader).names[0]), ReadOptions(), no_progress)
    assert error.value.what and error.value.do


@pytest.mark.parametrize("reader", EVERY_READER, ids=lambda r: r.id)
def test_a_consumer_may_stop_the_read(reader: Reader) -> None:
    def stop(state: ReadState) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reader.read(first_of(reader).source, ReadOptions(), stop)


@pytest.mark.parametrize("reader", EVERY_READER, ids=lambda r: r.id)
def test_what_it_found_travels_between_processes(reader: Reader) -> None:
    sample = first_of(reader)
    candidates = reader.find(listed(sample))
    assert pickle.loads(pickle.dumps(candidates)) == candidates
