"""Summaries beside traces in each object store: written there, found to be current, and opened without reading a trace."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

import pytest

from tb_plugin import cli
from tb_plugin.analysis.base import Params
from tb_plugin.service.catalog import Place
from tb_plugin.service.discovery.summary_files import SUFFIX
from tb_plugin.storage.files import _filesystem
from tests.conftest import SAMPLES
from tests.depth import needs_time, sampled
from tests.service.fakes import workspace_of

pytestmark = needs_time


def ranks_that_end_well(folder: Path) -> list[Path]:
    """Two traces whose summaries do not end as a line does: the emulator of GCS drops such a last byte of what it is sent."""
    folder.mkdir()
    every = [Path(shutil.copy(path, folder)) for path in sorted((SAMPLES / "synthetic_ddp").glob("*.gz"))]
    assert cli.main(["summarize", str(folder), "--workers", "0"]) == 0
    return [path for path in every if path.with_name(path.name + SUFFIX).read_bytes()[-1:] not in b"\r\n"][:2]


@pytest.mark.parametrize("scheme", sampled(["s3", "gs", "abfs"], ["s3"]))
def test_a_run_in_a_bucket_opens_from_summaries(scheme, object_stores, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCH_TRACE_CACHE", "off")
    store = object_stores(scheme)
    for key, value in store.environment.items():
        monkeypatch.setenv(key, value)
    fs, bucket = _filesystem(store.url)
    if scheme != "gs" and not fs.exists(bucket):
        fs.mkdir(bucket)
    name = f"summaries-{uuid.uuid4().hex[:8]}"
    ranks = ranks_that_end_well(tmp_path / "local")
    capsys.readouterr()
    for path in ranks:
        fs.pipe_file(f"{bucket}/{name}/ddp/{path.name}", path.read_bytes())
    url = f"{store.url}/{name}"
    for said in ("2 ranks: 2 computed, 0 up to date, 0 failed; ", "2 ranks: 0 computed, 2 up to date, 0 failed; "):
        assert cli.main(["summarize", url, "--workers", "0"]) == 0
        assert capsys.readouterr().out.startswith(said)
    store.door.requests.clear()
    with workspace_of(url, tmp_path / "cache") as workspace:
        workspace.catalog.scan()
        answer = json.loads(workspace.group(Place("ddp"), "distributed", Params()))
    assert [row["worker"] for row in answer["payloads"]["workers"]["rows"]] == [
        path.name.split(".")[0] for path in ranks
    ]
    asked = [line.partition("?")[0] for line in store.door.requests]
    assert any(SUFFIX in line for line in asked) and not [line for line in asked if line.endswith(".gz")], asked
