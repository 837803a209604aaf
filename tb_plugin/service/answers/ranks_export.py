"""Export of the ranks of a run as one Chrome JSON file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tb_plugin.model.trace.table import TraceTable
from tb_plugin.service.answers.chrome_export import InFile, Origin, Output, lines_of, rank_metadata, write_file
from tb_plugin.service.answers.rank_alignment import Aligned, RankClock, align, rank_clock


class _Rank(msgspec.Struct, frozen=True):
    """Values of a rank that are needed before its events are written."""

    place: InFile
    clock: RankClock
    origin_ns: int
    metadata: Mapping[str, Any]


def write_ranks(
    out: Output,
    traces: Callable[[], Iterable[TraceTable]],
    names: Sequence[str],
    clocks: Mapping[str, Mapping[str, Any]],
) -> list[Aligned]:
    """Writes the traces, which are gone through twice, and returns the alignment of each.

    ``clocks`` are the rows of the table ``clocks`` of the view ``distributed``, by name.
    """
    ranks = list(_ranks(traces(), names, clocks))
    aligned = align([rank.clock for rank in ranks])
    first = min(each.shift_ns for each in aligned)
    zero_ns = None if ranks[0].clock.wall_ns is None else ranks[0].clock.wall_ns + first
    places = [
        msgspec.structs.replace(rank.place, shift_ns=each.shift_ns - first - rank.origin_ns)
        for rank, each in zip(ranks, aligned, strict=True)
    ]
    metadata = {rank.place.rank: rank.metadata for rank in ranks}
    events = (lines_of(trace, place) for trace, place in zip(traces(), places, strict=True))
    write_file(out, events, Origin({**ranks[0].metadata, "deviceProperties": _devices(ranks)}, zero_ns, ranks=metadata))
    return aligned


def _devices(ranks: Sequence[_Rank]) -> list[Any]:
    """Returns the properties of all devices. Devices of different nodes with one id count as equal."""
    found: dict[str, Any] = {}
    for rank in ranks:
        listed = rank.metadata.get("deviceProperties")
        for device in listed if isinstance(listed, list) else ():
            found.setdefault(str(device.get("id")) if isinstance(device, dict) else "", device)
    return list(found.values())


def _ranks(
    traces: Iterable[TraceTable], names: Sequence[str], clocks: Mapping[str, Mapping[str, Any]]
) -> Iterator[_Rank]:
    arrows = 0
    for number, (name, trace) in enumerate(zip(names, traces, strict=True)):
        place = InFile(name, number, first_arrow=arrows)
        clock = rank_clock(trace, clocks.get(name))
        yield _Rank(place, clock, trace.origin_ns, rank_metadata(trace, place))
        arrows += len(trace)
