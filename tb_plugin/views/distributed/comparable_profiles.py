"""Selection of the profiles that are ranks of one job."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pyarrow.compute as pc

from tb_plugin.analysis.base import Part
from tb_plugin.lib.intervals import split_by_gaps
from tb_plugin.payloads import Notice, Severity

# reasons to ignore a profile, also used as rule names of notices
NO_RANK, OTHER_WORLD_SIZE, OTHER_TIME, SAME_RANK = "no_rank", "other_world_size", "other_time", "same_rank"
_MAX_NAMED = 8
_MAX_FACT = 1 << 62
_NOTICES: dict[str, tuple[Severity, str, str]] = {
    NO_RANK: (
        "info",
        "Ignored (not part of this job): ",
        "Move traces that belong to no job to a separate folder.",
    ),
    OTHER_WORLD_SIZE: (
        "medium",
        "Ignored (other world size): ",
        "Use a separate folder for the traces of each job.",
    ),
    OTHER_TIME: (
        "medium",
        "Ignored (recorded at another time than the other workers): ",
        "Use a separate folder for the traces of each launch.",
    ),
    SAME_RANK: (
        "medium",
        "Ignored (another worker reports the same rank): ",
        "Use a separate folder for the traces of each job, and delete copies.",
    ),
}


def integer_fact(part: Part, name: str) -> int | None:
    """Returns the fact ``name`` of a part as an integer, or None if the value is missing or implausibly large."""
    value = part.facts.get(name)
    return value if isinstance(value, int) and abs(value) < _MAX_FACT else None


def why_not_compared(parts: Sequence[Part]) -> list[str]:
    """Returns the reason why each profile is ignored, or "" for profiles that are ranks of the job.

    If some profiles report a world size, the job has the world size with the most ranks, and the larger one if several
    have as many. Profiles with another world size are ignored. A profile without a world size is also ignored if it has no
    calls, or if all ranks of the job are loaded. If profiles were recorded at different
    times, the largest set of profiles from one time is used. If two profiles have the same rank, the first profile is
    used.
    """
    reasons = _by_world_size(parts)
    for place in _at_other_times([part if not why else None for part, why in zip(parts, reasons, strict=True)]):
        reasons[place] = OTHER_TIME
    ranks: set[int] = set()
    for place, part in enumerate(parts):
        rank = integer_fact(part, "distributed.rank")
        if reasons[place] or rank is None:
            continue
        if rank in ranks:
            reasons[place] = SAME_RANK
        ranks.add(rank)
    return reasons


def _by_world_size(parts: Sequence[Part]) -> list[str]:
    sizes = [integer_fact(part, "distributed.world_size") for part in parts]
    ranks: dict[int, set[int | None]] = defaultdict(set)
    for part, own in zip(parts, sizes, strict=True):
        if own is not None:
            ranks[own].add(integer_fact(part, "distributed.rank"))
    size = max(ranks, key=lambda each: (len(ranks[each]), each), default=None)
    is_full = size is not None and len(ranks[size] - {None}) >= size
    reasons = []
    for part, own in zip(parts, sizes, strict=True):
        called = part.frames["collectives"].data.num_rows > 0
        if size is None or own == size:
            reasons.append("")
        elif own is None:
            reasons.append("" if called and not is_full else NO_RANK)
        else:
            reasons.append(OTHER_WORLD_SIZE)
    return reasons


def _at_other_times(parts: Sequence[Part | None]) -> list[int]:
    """Returns the indices of profiles that were recorded at a different time than most profiles.

    Profiles without a clock are not in the result. If all ranks are known and distinct, the result is empty,
    because the profiles then belong to one job.
    """
    ranks = [integer_fact(part, "distributed.rank") for part in parts if part]
    if None not in ranks and len(set(ranks)) == len(ranks):
        return []
    extents = {place: extent for place, part in enumerate(parts) if part and (extent := _extent(part))}
    places, groups = list(extents), split_by_gaps(list(extents.values()))
    most = max(groups, key=len, default=[])
    return [places[at] for group in groups if group is not most for at in group]


def _extent(part: Part) -> tuple[int, int] | None:
    """Returns the start of the first call and the end of the last call, in ns since 1970, or None if unknown."""
    base, calls = integer_fact(part, "distributed.base_time_ns"), part.frames["collectives"].data
    if base is None or not calls.num_rows:
        return None
    start, end = (pc.min(calls["start_ns"]).as_py(), pc.max(pc.add(calls["start_ns"], calls["dur_ns"])).as_py())
    return (base + start, base + end)


def not_compared(left_out: Sequence[tuple[str, str]]) -> list[Notice]:
    """Returns notices about ignored workers. ``left_out`` contains pairs of worker and reason."""
    notices = []
    for why, (severity, text, advice) in _NOTICES.items():
        names = [worker for worker, reason in left_out if reason == why]
        if names:
            more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
            notices.append(Notice(why, severity, f"{text}{', '.join(names[:_MAX_NAMED])}{more}.", advice, []))
    return notices
