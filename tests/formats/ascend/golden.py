"""Answers of the vendor's plugin for the recorded profiles, and what we make of the same files."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tb_plugin.analysis.base import Params, Part
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.kernels.view import Kernels
from tb_plugin.views.operators.view import Operators
from tests.formats.ascend.folders import RECORDED, folder, table_of
from tests.formats.sources import DATA

GOLDEN = DATA / "ascend" / "golden"
_VIEWS = {"operators": Operators(), "kernels": Kernels()}


def answers(*names: str) -> list[Path]:
    """The files of these names that hold an answer: for some profiles the plugin failed, or had nothing to say."""
    found = sorted(path for name in names for path in GOLDEN.rglob(f"{name}.json"))
    return [path for path in found if path.read_text() != "null"]


def label(path: Path) -> str:
    return path.relative_to(GOLDEN).with_suffix("").as_posix()


def said(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def table(run: str, worker: str) -> TraceTable:
    (profile,) = RECORDED.glob(f"{run}/{worker}_*_ascend_pt")
    return table_of(folder(profile))


@cache
def part(view: str, run: str, worker: str) -> Part:
    return _VIEWS[view].part(table(run, worker), Params())


def of(view: str, path: Path, worker: str = "") -> Part:
    """What our view says of the profile that an answer is about."""
    run = path.relative_to(GOLDEN).parts[0]
    return part(view, run, worker or path.parent.name)
