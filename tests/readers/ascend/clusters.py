"""Analyses of jobs: the generated one in its three forms, and the recorded ones where they are."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from tb_plugin.cluster.table import Cluster
from tb_plugin.readers.ascend import AscendClusterReader
from tb_plugin.readers.base import ReadOptions, no_progress
from tests.conftest import SAMPLES
from tests.readers.ascend.folders import Files
from tests.readers.sources import DATA
from tests.synthetic import loaded

generator = loaded("synthetic_ascend_cluster")
TRUTH = json.loads((SAMPLES / "truth" / "synthetic_ascend_cluster.json").read_text())
RECORDED = DATA / "ascend"
needs_recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="analyses of recorded jobs are in ../shared")


@functools.cache
def content(export: str) -> dict[str, bytes]:
    """The files of an export."""
    made: dict[str, bytes] = generator.WRITERS[export](generator.play(0))
    return made


def cluster(files: dict[str, Any]) -> Cluster:
    """What the reader makes of files; what is no bytes is JSON, text a table."""
    made = {
        name: value
        if isinstance(value, bytes)
        else value.encode()
        if isinstance(value, str)
        else json.dumps(value).encode()
        for name, value in files.items()
    }
    return AscendClusterReader().read(Files(made), ReadOptions(), no_progress)


def recorded(place: str) -> Cluster:
    """An analysis of a recorded job."""
    return cluster({path.name: path.read_bytes() for path in (RECORDED / place).iterdir()})
