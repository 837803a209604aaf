"""The generator of NPU profiles. ``formats/ascend/test_sample.py`` compares its truth with what the plugin finds."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.synthetic_ascend import generator

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
RECORDED = SAMPLES.parent.parent / "shared" / "data" / "ascend" / "logdir"
Json = dict[str, Any]
OUTPUT = "ASCEND_PROFILER_OUTPUT/"


def test_the_slow_rank_is_waited_for() -> None:
    """Rank 0 waits longer for what comes back in the step in which rank 1 is slow."""
    truth = generator.truth_document(generator.Config(), "a run")["ranks"]["0"]
    first, last = (c["wait_ns"] for c in truth["collectives"] if "receive" in c["name"])
    assert last > 1.3 * first > 0


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recordings of NPUs are in ../shared")
def test_tables_have_the_columns_of_recorded_ones() -> None:
    """Of the same version where it is there, of an older one (without a device) elsewhere."""

    def titles(content: bytes) -> list[str]:
        return next(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))

    newest = RECORDED / "qwen3_pp2_dp2_level2/rank_0_20251127123438131_ascend_pt" / OUTPUT
    older = RECORDED / "alexnet_text_level1/rank_0_20250109074804023_ascend_pt" / OUTPUT
    compared = 0
    for name, content in generator.texts(generator.play(generator.Config())[0]).items():
        for folder in (newest, older):
            path = folder / Path(name).name
            if path.suffix == ".csv" and path.is_file():
                ours, theirs = titles(content), titles(path.read_bytes())
                assert ours == theirs or (folder == older and [t for t in ours if t != "Device_id"] == theirs), path
                compared += 1
                break
    assert compared == 9


def test_the_trace_view_has_the_events_of_a_recorded_one() -> None:
    path = RECORDED / "alexnet_text_level1/rank_0_20250109074804023_ascend_pt" / OUTPUT / "trace_view.json"
    if not path.is_file():
        pytest.skip("the recordings of NPUs are in ../shared")

    def kinds(text: bytes) -> set[tuple[Any, ...]]:
        found = json.loads(text)
        names = {e["pid"]: e["args"]["name"] for e in found if e["name"] == "process_name"}
        return {
            (names[e["pid"]].replace("HCCL", "Communication"), e["ph"], e.get("cat"), type(e["ts"]), type(e.get("id")))
            for e in found
            if e["ph"] != "M"
        }

    ours, theirs = (
        kinds(generator.texts(generator.play(generator.Config())[0])[OUTPUT + "trace_view.json"]),
        kinds(path.read_bytes()),
    )
    assert {kind for kind in ours - theirs if kind[0] != "Python GC"} == set()


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        generator.Config(steps=0)


def test_the_command_line_writes_what_the_functions_make(tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    generator.main([str(tmp_path / "run"), "--steps", "1", "--truth", str(truth)])
    config = generator.Config(steps=1)
    assert json.loads(truth.read_text()) == json.loads(json.dumps(generator.truth_document(config, "run")))
    (process, _) = generator.play(config)
    written = tmp_path / "run" / generator.folder_of(process) / OUTPUT / "kernel_details.csv"
    assert written.read_bytes() == generator.texts(process)[f"{OUTPUT}kernel_details.csv"]
    assert re.fullmatch(r"rank_0_\d{17}_ascend_pt", generator.folder_of(process))


def test_the_sample_is_what_the_generator_makes_today() -> None:
    kept = json.loads((SAMPLES / "truth" / "synthetic_ascend.json").read_text())
    config = generator.Config(**kept["config"])
    processes = generator.play(config)
    assert json.loads(json.dumps(generator.truth_document(config, "synthetic_ascend", processes))) == kept
    size = 0
    for process in processes:
        for name, content in generator.texts(process).items():
            assert (SAMPLES / "synthetic_ascend" / generator.folder_of(process) / name).read_bytes() == content
            size += len(content)
    assert size < 300_000


def test_the_databases_are_what_the_generator_makes_today(tmp_path: Path) -> None:
    """Row by row: SQLite writes its own version into a file."""
    size = 0
    for process in generator.play(generator.Config()):
        for name, content in generator.databases(process).items():
            kept = SAMPLES / "synthetic_ascend_db" / generator.folder_of(process) / name
            size += kept.stat().st_size
            if kept.suffix == ".db":
                today = tmp_path / kept.name
                today.write_bytes(content)
                assert dumped(today) == dumped(kept), name
            else:
                assert kept.read_bytes() == content
    assert size < 160_000


def dumped(path: Path) -> list[str]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return list(connection.iterdump())
