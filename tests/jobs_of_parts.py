"""Answers of Distributed about parts of ranks, and parts of nothing but given tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Params, Part
from tb_plugin.payloads import Notice, Notices, Table, View
from tb_plugin.views.distributed.view import Distributed
from tests.builders import trace
from tests.conftest import SAMPLES, sample

VIEW = Distributed()
Rows = list[dict[str, Any]]


def table_of(parts: Sequence[Part], name: str, **params: Any) -> Rows:
    answer = VIEW.answer(parts, Params(table=name, limit=None, **params))
    assert isinstance(answer, Table)
    return answer.rows


def view_of(parts: Sequence[Part], **params: Any) -> View:
    answer = VIEW.answer(parts, Params(**params))
    assert isinstance(answer, View)
    return answer


def notices_of(parts: Sequence[Part], **params: Any) -> list[Notice]:
    notices = view_of(parts, **params).payloads["findings"]
    assert isinstance(notices, Notices)
    return notices.notices


def part_with(worker: str, tables: Mapping[str, pa.Table], world: int | None = None, step_ns: int = 1000) -> Part:
    """A part of one step that has these tables."""
    part = VIEW.part(trace().step(0, 0, step_ns / 1000).op("aten::mm", 0, 0.001).table(), Params())
    frames = {name: replace(part.frames[name], data=data) for name, data in tables.items()}
    return replace(part, worker=worker, frames={**part.frames, **frames}, facts={"distributed.world_size": world})


def sample_parts(folder: str) -> list[Part]:
    files = sorted((SAMPLES / folder).glob("*.json*"))
    return [replace(VIEW.part(sample(f"{folder}/{f.name}"), Params()), worker=f.name.split(".")[0]) for f in files]
