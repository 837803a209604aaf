"""``torch-trace export``: what is written and read again has the numbers of the profiles."""

from __future__ import annotations

import gzip
import json
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
    ranks = written.pop("ranks")
    assert ranks.to_pylist() == api.open(str(SAMPLES / "synthetic_ddp")).sql("select * from ranks").to_pylist()
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
    assert set(events.column_names[3:]) == {column.name for column in TABLES["memory_events"].columns}
    by_run = events.group_by("run").aggregate([("stack", "count"), ("allocated_bytes", "count"), ("bytes", "sum")])
    counts = {row["run"]: row for row in by_run.to_pylist()}
    assert counts["synthetic_gpu"]["stack_count"] == 0 < counts["synthetic_gpu"]["allocated_bytes_count"]
    assert counts["synthetic_memory"]["allocated_bytes_count"] == 0 < counts["synthetic_memory"]["stack_count"]
    assert set(read(tmp_path / "out/blocks.parquet")["rank"].to_pylist()) == {"fragmented", "leaking", "out_of_memory"}


@pytest.mark.parametrize("tables", [[], ["--table", "kernels", "--table", "steps"]])
def test_several_tables_do_not_fit_into_a_file(
    tables: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(SAMPLES / "synthetic_gpu", "parquet", tmp_path / "x.parquet", *tables) != 0
    assert "One file has one table. Add --table NAME" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


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


@pytest.mark.parametrize("place", ["synthetic_ddp", "ddp_gloo"])
def test_ranks_in_one_file_open_again_with_their_numbers(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(SAMPLES / place, "chrome", tmp_path / "m/ranks.json.gz") == 0
    assert "ranks, aligned by corrected clocks" in capsys.readouterr().out
    want, found = api.open(str(SAMPLES / place)), api.open(str(tmp_path / "m"))
    assert isinstance(want, api.Job) and isinstance(found, api.Job)
    assert found.workers == want.workers
    clocks = found.table("clocks")
    assert set(clocks.clock_offset_ns) == {0}
    assert clocks.trace_begins_ns.tolist() == want.table("clocks").trace_begins_ns.tolist()
    for worker in want.workers:
        models = [job.worker(worker)._made() for job in (want, found)]
        for name in TABLES:
            first, second = (table_of(model, name) for model in models)
            assert (first and first.to_pylist()) == (second and second.to_pylist()), name
        facts = [job.worker(worker).facts for job in (want, found)]
        assert {key for key in facts[0] if facts[0][key] != facts[1][key]} <= {"distributed.base_time_ns"}


def test_ranks_in_one_file_have_processes_and_arrows_of_their_own(tmp_path: Path) -> None:
    """Perfetto takes equal ids for one process, and for one arrow."""
    assert export(SAMPLES / "synthetic_ddp", "chrome", tmp_path / "ranks.json") == 0
    document = json.loads((tmp_path / "ranks.json").read_text())
    events = document["traceEvents"]
    named = {(e["pid"], e["args"]["name"].split()[0]) for e in events if e["name"] == "process_name"}
    assert len({pid for pid, _ in named}) == len(named)
    assert {rank for _, rank in named} == {"rank0", "rank1", "rank2", "rank3"}
    assert all(isinstance(e["pid"], int) and e["pid"] < 2**32 for e in events)
    heads = [(e["cat"], e["id"]) for e in events if e["ph"] == "f"]
    assert len(set(heads)) == len(heads) > 0
    # The sort order keeps the processes of a rank together.
    order = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    ranks = [rank for _, rank in sorted((order[pid], rank) for pid, rank in named)]
    assert ranks == sorted(ranks)


def test_one_profile_as_chrome_json(tmp_path: Path) -> None:
    target = tmp_path / "x.pt.trace.json.gz"
    assert export(SAMPLES / "synthetic_ddp", "chrome", target, "--worker", "rank2") == 0
    assert json.loads(gzip.decompress(target.read_bytes()))["schemaVersion"] == 1
    found, want = api.open(str(target), worker="rank2"), api.open(str(SAMPLES / "synthetic_ddp"), worker="rank2")
    assert found.facts == want.facts


def test_a_snapshot_beside_the_traces_is_not_in_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(SAMPLES / "ddp_gloo", tmp_path / "run")
    shutil.copy(SAMPLES / "synthetic_memory/leaking.pickle.gz", tmp_path / "run")
    assert export(tmp_path / "run", "chrome", tmp_path / "ranks.json", "--span", "1") == 0
    assert "2 ranks" in capsys.readouterr().out


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
    assert export(gpu, "chrome", tmp_path / "x.json", "--table", "events") == 2
    assert export(SAMPLES / "resnet_cpu", "chrome", tmp_path / "x.json") == 2
    assert "--span" in capsys.readouterr().err
    assert export(SAMPLES / "synthetic_memory", "chrome", tmp_path / "x.json", "--worker", "leaking") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
