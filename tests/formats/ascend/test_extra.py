"""Files of further recordings, one or two of a profile each: cut out, of several devices, of other tools, in use."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from tb_plugin import registry
from tb_plugin.errors import UnreadableTrace
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.storage.files import FileSource
from tests.formats.ascend.databases import database, training
from tests.formats.ascend.folders import OUTPUT, codes, found, needs_recorded, raw_of
from tests.formats.sources import DATA
from tests.samples import scanned

EXTRA = DATA / "ascend" / "extra"
TOOLS = EXTRA / "msprof_analyze_ut" / "test" / "ut" / "advisor"


def profile(folder: Path, **files: Path) -> FileSource:
    """A profile of these files under other names."""
    (folder / OUTPUT).mkdir(parents=True)
    names = {}
    for name, path in files.items():
        target = folder / OUTPUT / name.replace("__", ".")
        shutil.copyfile(path, target)
        names[f"{OUTPUT}{target.name}"] = str(target)
    return FileSource(names)


def opened(folder: Path, **files: Path) -> TraceTable:
    source = profile(folder, **files)
    (candidate,) = scanned(folder, registry.readers()).profiles
    assert candidate.reader.id == "ascend"
    return assemble(raw_of(source))


@needs_recorded
@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        (EXTRA / "trace_snippets" / "trace_view_tiny.json", 0),
        (EXTRA / "trace_snippets" / "heatMap_trace_view.json", 1),
        (TOOLS / "advisor_backend" / "timeline_advice" / "trace_view.json", 3),
    ],
    ids=lambda value: value.parent.name + "/" + value.name if isinstance(value, Path) else str(value),
)
def test_trace_views_of_other_tests(path: Path, kinds: int, tmp_path: Path) -> None:
    table = opened(tmp_path, trace_view__json=path)
    assert len(set(table.kind.tolist())) >= kinds
    assert table.report.events_in_file > 0 and not {issue.outcome for issue in table.report.issues} & {"dropped"}


@needs_recorded
@pytest.mark.parametrize("folder", ["advisor_backend/compute_advice", "compute_advice/data"])
def test_tables_of_kernels_of_other_tests(folder: str, tmp_path: Path) -> None:
    path = TOOLS / folder / "kernel_details.csv"
    table = opened(tmp_path, kernel_details__csv=path)
    lines = path.read_text(encoding="utf-8-sig").splitlines()[1:]
    assert Counter(table.kind.tolist()) == {EventKind.KERNEL: len([line for line in lines if line.strip()])}
    assert {"Type", "Accelerator Core"} <= {column.key for column in table.others}


@needs_recorded
def test_times_of_steps_of_several_devices(tmp_path: Path) -> None:
    source = profile(tmp_path, analysis__db=EXTRA / "insight_multidevice_db" / "analysis.dat")
    (steps,) = raw_of(source).reported_tables
    columns = {column.title: column.values.to_pylist() for column in steps.columns}
    assert steps.name == "step_times" and len(columns["Device"]) == 4 and len(set(columns["Device"])) > 1


@needs_recorded
def test_a_database_without_tables_is_told(tmp_path: Path) -> None:
    path = EXTRA / "insight_multidevice_db" / "ascend_pytorch_profiler.dat"
    source = profile(tmp_path, ascend_pytorch_profiler__db=path, analysis__db=path.with_name("analysis.dat"))
    raw = raw_of(source)
    assert codes(raw, "ascend_pytorch_profiler.db") and len(raw.reported_tables) == 1
    with pytest.raises(UnreadableTrace):
        raw_of(profile(tmp_path / "alone", ascend_pytorch_profiler__db=path))


@needs_recorded
def test_the_database_of_the_collecting_tool_opens_under_the_profilers_name(tmp_path: Path) -> None:
    """msprof_0.db has the same tables, but those of PyTorch."""
    path = EXTRA / "msprof" / "msprof_0.db"
    table = opened(tmp_path, ascend_pytorch_profiler_0__db=path)
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as connection:
        (tasks,) = connection.execute("SELECT count(*) FROM TASK WHERE endNs >= startNs").fetchone()
    connection.close()
    on_streams = [column for column in table.others if column.key == "Task Type"]
    assert len(on_streams[0].row) == tasks > 20
    assert not (table.kind == EventKind.OPERATOR).any()


def test_changes_that_a_database_has_not_saved_are_told(tmp_path: Path) -> None:
    """Copied while somebody wrote it: a log stands beside it."""
    source = tmp_path / "source.db"
    source.write_bytes(database(training()))
    writing = sqlite3.connect(source, isolation_level=None)
    writing.execute("PRAGMA journal_mode = WAL")
    writing.execute("DELETE FROM COMMUNICATION_OP")
    target = tmp_path / "run" / OUTPUT
    target.mkdir(parents=True)
    names = {"": "ascend_pytorch_profiler_3.db", "-wal": "ascend_pytorch_profiler_3.db-wal"}
    for ending, name in names.items():
        shutil.copyfile(f"{source}{ending}", target / name)
    writing.close()
    (candidate,) = found(*(f"run/{OUTPUT}{name}" for name in names.values()))
    assert [Path(name).name for name in candidate.names] == list(names.values())
    raw = raw_of(FileSource({f"{OUTPUT}{name}": str(target / name) for name in names.values()}))
    assert "unsaved_changes" in codes(raw, "ascend_pytorch_profiler_3.db-wal")
    assert "hcom_allReduce__1_0_1" in raw.strings, "the database as it was last saved"
    (target / names["-wal"]).write_bytes(b"")
    empty = raw_of(FileSource({f"{OUTPUT}{name}": str(target / name) for name in names.values()}))
    assert "unsaved_changes" not in codes(empty)
