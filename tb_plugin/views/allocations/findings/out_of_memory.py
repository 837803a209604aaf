"""Findings on failed memory requests."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tb_plugin.analysis.phrases import references_of
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, levels_of, ooms_of
from tb_plugin.analysis.snapshot.finding_metrics import RAN_OUT
from tb_plugin.analysis.snapshot.labels import NO_STACK, stack_words
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.out_of_memory import ran_out as met_by
from tb_plugin.analysis.snapshot.out_of_memory import sentence_of
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import Link, Notice
from tb_plugin.rules._checks import Check

# A program that retries runs out of memory many times; the table lists all.
MAX_FINDINGS = 5


CHECK = Check(
    "snapshot_out_of_memory",
    detects="A request for memory failed.",
    threshold="The history contains an `oom` event. The first 5 become findings.",
    severity="High.",
    notes="""
        The finding names the first of these causes that applies. `gap`: a limit or an unrecorded block, if
        `pool_gap_bytes` is at least `asked_bytes`. `pieces`: fragmented free memory, if `fits_joined`.
        `elsewhere`: other streams, pools or
        sizes, if `cache_free_bytes` plus `device_free_bytes` are at least `asked_bytes`. `one`: the request itself, if
        it is larger than all active bytes. `full`: too much memory is in use.
    """,
    cases=("full", "one", "gap", "pieces", "pieces.expandable", "elsewhere"),
)


def ran_out(device: DeviceLevels) -> Iterator[Notice]:
    """Yields a finding for each out-of-memory event, up to a maximum number of findings."""
    levels, lines = levels_of(device), _line_numbers(device.snapshot)
    for event in ooms_of(device)[:MAX_FINDINGS].tolist():
        one = met_by(device, event)
        text, figures = sentence_of(one)
        blocks = device.allocated(event)
        by_line = np.bincount(lines.of(device.block("stack")[blocks]), device.block("size")[blocks], len(lines.text))
        most = int(by_line.argmax()) if len(blocks) else len(lines.text) - 1
        figures += [
            METRICS.figure("allocated_bytes", int(levels.allocated[event + 1]), window=RAN_OUT),
            METRICS.figure("holding_line", lines.text[most] or NO_STACK),
            METRICS.figure("line_held_bytes", int(by_line[most])),
        ]
        text += " Largest allocation site: {holding_line} with {line_held_bytes} of {allocated_bytes}."
        recorder = device.snapshot.recorder
        case = one.cause
        if one.cause == "pieces" and device.snapshot.settings.get("expandable_segments") is True:
            case += ".expandable"
        yield Notice(
            CHECK.id,
            "high",
            text,
            recorder.todo(CHECK.advice_key(case)),
            figures,
            evidence=Link("segments", {"device": device.name, "at": str(event)}, "Show the segments at that event"),
            references=references_of(recorder, CHECK.advice_key(case)),
        )


Int64 = npt.NDArray[np.int64]


class Lines(msgspec.Struct, frozen=True, eq=False):
    """Distinct lines of code. The last entry stands for stacks without a line of code."""

    text: tuple[str, ...]
    number: Int64
    """Index into ``text`` for each stack; the last entry is for stack -1."""

    def of(self, stack: npt.NDArray[np.integer]) -> Int64:
        """Returns the index of the line of each stack."""
        found: Int64 = self.number[stack]
        return found


@cached_by_argument
def _line_numbers(snapshot: Snapshot) -> Lines:
    encoded = stack_words(snapshot).line.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    number = pc.fill_null(encoded.indices, len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
    return Lines((*texts, ""), number)
