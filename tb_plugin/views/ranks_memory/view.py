"""Memory of all ranks: peaks, categories and repeated contents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params, Part, answer_view
from tb_plugin.analysis.memory_categories import ORDER
from tb_plugin.analysis.phrases import plural
from tb_plugin.analysis.skipped_workers import left_out
from tb_plugin.analysis.snapshot.categories import categories_of_blocks
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels, levels_of, levels_of_device, ooms_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.snapshot.table import Snapshot
from tb_plugin.payloads import CoverageInfo, Figures, Line, Notice, Notices, Payload, Series, Table, View
from tb_plugin.views.ranks_memory import VIEW
from tb_plugin.views.ranks_memory.replicas import (
    FRAME,
    alike_in,
    counts_of,
    replicated_states,
    replication_notice,
    states_frame,
)

_LEVELS = ("most_allocated_bytes", "most_reserved_bytes", "allocated_at_end_bytes", "oom_count", "history_events")
_AT_PEAK = "peak_states"
_CATEGORIES = tuple(f"rank_{name}_bytes" for name in ORDER)


class RanksMemory(DeclaredView, entry=VIEW):
    """Compares the memory snapshots of all workers of a run and span."""

    def part_key(self, params: Params) -> tuple[object, ...]:
        return ()

    def part(self, snapshot: Snapshot, params: Params) -> Part:
        """Returns the memory levels of one rank, and the rank's parameters, gradients and optimizer state."""
        device = levels_of_device(snapshot, Params())
        levels, found = levels_of(device), categories_of_blocks(device)
        rows = device.allocated(levels.peak())
        size, code = device.block("size")[rows], found.of[rows]
        values = (
            levels.allocated.max(),
            levels.reserved.max(),
            levels.allocated[-1],
            len(ooms_of(device)),
            device.count,
        )
        row: dict[str, list[int | str | None]] = {"device": [device.name]}
        row |= {key: [int(value)] for key, value in zip(_LEVELS, values, strict=True)}
        for i, key in enumerate(_CATEGORIES):
            row[key] = [int(size[code == i].sum()) if found.has_any else None]
        data = pa.table(
            {key: pa.array(value, pa.string() if key == "device" else pa.int64()) for key, value in row.items()}
        )
        # A snapshot without devices has no row.
        frames = {"rank_memory": _frame(data if device.name else data.slice(0, 0)), FRAME: _states(device)}
        frames[_AT_PEAK] = replace(_states(device, levels.peak()), name=_AT_PEAK)
        return Part(CoverageInfo(complete=snapshot.report.complete), {}, frames, {}, ("rank_memory",))

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        tables = [(each.worker, each.frames["rank_memory"].data) for each in parts]
        data = pa.concat_tables([own.add_column(0, "worker", pa.repeat(worker, len(own))) for worker, own in tables])
        payloads: dict[str, Payload] = {}
        if params.table is None:
            payloads["answer"] = Notices("answer", "Answer", "answer", [*_answer(data)])
            payloads["headline"] = _headline(data)
            payloads["advice"] = Notices("advice", "Findings", "training", [*_repeated(parts)])
            payloads["rank_categories"] = _bars(data)
            if notes := [*left_out(params, METRICS), *_notes(data)]:
                payloads["data_quality"] = Notices("data_quality", "About these numbers", "data", notes)
        coverage = CoverageInfo(complete=all(each.coverage.complete for each in parts))
        frames = {"rank_memory": _frame(data)}
        return answer_view(self, Part(coverage, {}, frames, payloads, (*payloads, *frames)), params)


def _frame(data: pa.Table) -> Frame:
    keys = data.column_names
    empty = tuple(key for key in _CATEGORIES if not any(data[key].to_pylist()))
    columns = METRICS.columns(
        *keys, hidden=(*empty, "history_events"), titles={"allocated_at_end_bytes": "At the snapshot"}
    )
    return Frame("rank_memory", "Ranks", columns, data, (keys[0],), keys[0])


def _states(device: DeviceLevels, at: int | None = None) -> Frame:
    """Returns the blocks of parameters, gradients and optimizer state after event ``at``.

    The default of ``at`` is the event with the largest total.
    """
    begin, freed, size = (device.block(name) for name in ("begin", "freed", "size"))
    return states_frame(categories_of_blocks(device).of, begin, freed, size, at)


def _headline(data: pa.Table) -> Figures:
    names, most, reserved, _, ooms, _ = (data[key].to_pylist() for key in ("worker", *_LEVELS))
    figures = [METRICS.figure("workers", len(data))]
    if names:
        peaks = (("Largest peak", int(np.argmax(most))), ("Smallest peak", int(np.argmin(most))))
        for title, place in peaks[: len(names)]:
            figures.append(METRICS.figure("most_allocated_bytes", most[place], title, f"of {names[place]}"))
        figures.append(METRICS.figure("most_reserved_bytes", max(reserved), "Peak reserved"))
        figures.append(METRICS.figure("oom_count", sum(ooms)))
    return Figures("headline", "All ranks", "", figures, "headline")


def _answer(data: pa.Table) -> Iterator[Notice]:
    """Yields a finding that compares the largest and the smallest peak of all ranks."""
    names, most = data["worker"].to_pylist(), data["most_allocated_bytes"].to_pylist()
    if len(names) < 2:
        return
    top, low = int(np.argmax(most)), int(np.argmin(most))
    figures = [
        METRICS.figure("workers", len(names)),
        METRICS.figure("worker", names[top]),
        METRICS.figure("most_allocated_bytes", most[top]),
        METRICS.figure("peaks_apart_bytes", most[top] - most[low]),
    ]
    text = "{worker} has the largest peak of {workers} ranks: {most_allocated_bytes}, {peaks_apart_bytes} above the smallest."
    if most[top] == most[low]:
        text = "All {workers} ranks have the same peak, {most_allocated_bytes}."
    yield Notice("ranks_peaks", "info", text, "", figures)


def _bars(data: pa.Table) -> Series:
    """Returns a chart of memory by category at the peak, with one bar per rank."""
    sizes = {key: data[key].to_pylist() for key in _CATEGORIES}
    # Without categories the whole peak is unknown; a missing bar would look like 0 bytes.
    unknown = _CATEGORIES[ORDER.index("unknown")]
    peaks = zip(sizes[unknown], data["most_allocated_bytes"].to_pylist(), strict=True)
    sizes[unknown] = [peak if size is None else size for size, peak in peaks]
    lines = [Line(METRICS.metric(key), name, sizes[key]) for key, name in zip(_CATEGORIES, ORDER, strict=True)
             if any(sizes[key])]  # fmt: skip
    title = "Memory at the peak, by category"
    return Series(
        "rank_categories", title, "", METRICS.metric("worker"), data["worker"].to_pylist(), lines, "stacked_bars"
    )


def _notes(data: pa.Table) -> list[Notice]:
    notices = []
    without = data["history_events"].to_pylist().count(0)
    if without:
        text = (
            f"{{no_history_ranks}} of {{workers}} {plural(len(data), 'snapshot')} {plural(without, 'has', 'have')} no "
        )
        text += "history: the numbers describe the time of the dump, not the peak."
        figures = [METRICS.figure("no_history_ranks", without), METRICS.figure("workers", len(data))]
        notices.append(Notice("ranks_without_history", "info", text, "", figures))
    if len(data) == 1:
        text = "Only one rank is loaded, so nothing can be compared."
        notices.append(Notice("one_worker", "info", text, "Put the snapshots of all ranks into one run folder."))
    return notices


def _repeated(parts: Sequence[Part]) -> list[Notice]:
    """Returns a finding about parameters, gradients or optimizer state that every rank stores as a copy."""
    found = replicated_states([counts_of(part) for part in parts])
    if found is None:
        return []
    same = sum(alike_in([counts_of(part, _AT_PEAK) for part in parts]).values())
    return [replication_notice(found, same * (found.ranks - 1) // found.ranks)]
