"""``torch-trace export``: what is written and read again has the numbers of the profiles."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from tb_plugin import api, cli
from tb_plugin.registry import model_of
from tb_plugin.service.states import Entry
from tb_plugin.sql.tables import TABLES, table_of

SAMPLES = Path(__file__).resolve().parents[2] / "samples"


def export(path: Path, form: str, output: Path, *options: str) -> int:
    return cli.main(["export", str(path), "--format", form, "--output", str(output), *options])


def read(path: Path) -> pa.Table:
    return parquet.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()


def entry_of(place: str, worker: str | None = None) -> Entry:
    opened = api.open(str(SAMPLES / place), worker=worker)
    return opened._workspace.load(opened._place)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_tables_of_a_run_have_the_rows_of_its_ranks(form: str, tmp_path: Path) -> None:
    assert export(SAMPLES / "synthetic_ddp", form, tmp_path) == 0
    ranks = [entry_of("synthetic_ddp", f"rank{n}") for n in range(4)]
    models = [model_of(entry.files.reader).read(entry.path) for entry in ranks]
    written = {path.stem: read(path) for path in tmp_path.glob(f"*.{form}")}
    assert set(written) == {name for name in TABLES if table_of(models[0], name) is not None}
    for name, table in written.items():
        assert table.column_names[0] == "rank"
        want = [
            {"rank": f"rank{n}"} | row for n, model in enumerate(models) for row in table_of(model, name).to_pylist()
        ]
        assert table.to_pylist() == want


def test_a_log_directory_has_runs_and_kinds_of_profiles(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    for place in ("synthetic_gpu", "synthetic_memory"):
        shutil.copytree(SAMPLES / place, logs / place)
    assert export(logs, "parquet", tmp_path / "out", "--table", "memory_events", "--table", "blocks") == 0
    events = read(tmp_path / "out/memory_events.parquet")
    assert events.column_names[:4] == ["run", "rank", "span", "device"]
    assert set(events.column_names[3:]) == set(TABLES["memory_events"].columns)
    by_run = events.group_by("run").aggregate([("stack", "count"), ("allocated_bytes", "count"), ("bytes", "sum")])
    counts = {row["run"]: row for row in by_run.to_pylist()}
    assert counts["synthetic_gpu"]["stack_count"] == 0 < counts["transformer_cpu"]["allocated_bytes_count"]
    assert counts["synthetic_memory"]["allocated_bytes_count"] == 0 < counts["synthetic_memory"]["stack_count"]
    assert set(read(tmp_path / "out/blocks.parquet")["rank"].to_pylist()) == {"fragmented", "leaking", "out_of_memory"}


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_one_table_into_a_file_with_units_and_meanings(form: str, tmp_path: Path) -> None:
    target = tmp_path / f"kernels.{form}"
    assert export(SAMPLES / "synthetic_gpu", form, target, "--table", "kernels") == 0
    assert [path.name for path in tmp_path.iterdir()] == [target.name]
    schema = read(target).schema
    assert schema.metadata[b"table"] == b"kernels"
    duration = schema.field("dur_ns").metadata
    assert (duration[b"unit"], duration[b"meaning"]) == (b"ns", b"duration")
    assert b"unit" not in schema.field("name").metadata


def test_what_cannot_be_exported_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu = SAMPLES / "synthetic_gpu"
    assert export(gpu, "parquet", tmp_path, "--table", "none") == 2
    assert "There is no table none." in capsys.readouterr().err
    assert export(gpu, "parquet", tmp_path, "--table", "blocks") == 2
    assert "no table blocks" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert export(gpu, "parquet", tmp_path / "file") == 3
    assert "cannot be written" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
