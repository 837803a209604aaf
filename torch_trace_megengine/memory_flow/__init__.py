"""MegEngine's memory flow drawings (``<pid>.memory_flow.svg``), with one rectangle per tensor."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import ViewEntry, ViewText
from tb_plugin.formats._chrome.filenames import run_of
from tb_plugin.formats.base import Candidate, each_file
from tb_plugin.formats.format_entry import FormatEntry
from tb_plugin.model_kinds.model_entry import ModelEntry

READER_ID = "memory_flow"
_RAW = f"{__name__}.model:RawMemoryFlow"
_MODEL = f"{__name__}.model:MemoryFlow"
_NAME = re.compile(r"(?s)^(?P<worker>.+)\.memory_flow\.svg(?:\.gz)?\Z")
_MARK = re.compile(rb'xmlns:tag="https://megengine\.org\.cn"')


def _candidate_of(path: str) -> Candidate | None:
    match = _NAME.match(PurePosixPath(path).name)
    return match and Candidate(READER_ID, run_of(path), match["worker"], None, (path,), certain=True)


def _sniff(head: bytes) -> bool:
    return _MARK.search(head) is not None


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "MegEngine memory flow",
        order=90,
        raw=_RAW,
        endings=(".memory_flow.svg", ".memory_flow.svg.gz"),
        find=each_file(_candidate_of),
        sniff=_sniff,
    ),
)
MODEL = ModelEntry(
    f"{__name__}.model:MEMORY_FLOW", "memory_flow", "a memory flow", "memory_flow", raw=_RAW, made=_MODEL
)
VIEW = ViewEntry(
    __name__,
    "memory_flow",
    "Memory flow",
    order=190,
    model=_MODEL,
    traits=Traits("memory", phase_note="A memory flow has no phases.", tables=("tensors_at", "flow_producers")),
    http=ViewText(
        parameters=(
            "`start_ns`, `end_ns` (range of time), `low`, `high` (range on the address axis of `flow`), "
            "`at_ns` (time of figures and tables, default the peak), `width` (columns of the curve, default "
            "800)."
        ),
        payloads=(
            "For `memory_flow.svg`. `answer` (Notices), `summary` (Figures), `curve` (Series, lines), `flow` "
            "(MemoryFlowMap: up to 10,000 tensors of the selected range, and the positions of all other "
            "tensors), `moment` (Figures: memory at `at_ns`), `data_quality` (Notices), `tensors_at`, "
            "`flow_producers`, `tensors` (Tables)."
        ),
        tables="`tensors_at` (tensors that are live at `at_ns`), `flow_producers`, `tensors` (all tensors).",
    ),
)
