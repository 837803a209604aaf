"""What ranks state of their communication, side by side: times, kinds of calls and links, and links between ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analyses.base import Frame, Part
from tb_plugin.analyses.distributed.metrics import METRICS
from tb_plugin.analyses.distributed.stated import BETWEEN, CALLS, MEMBERS, MOVED, RANK, STEPS, TIMES, summed
from tb_plugin.analyses.jobs.steps import rank_means, step_bars
from tb_plugin.analyses.metrics import CHOSEN
from tb_plugin.payloads import Column, Line, Notice, Series
from tb_plugin.trace.job_tables import STEP_TIMES, job_table

MOST_DRAWN = 64
"""Ranks of the map of links; with more a cell is too small to be seen."""
_PARTS = (
    ("transit_ns", "transfer"), ("synchronization_ns", "wait"), ("wait_rest_ns", "sync"), ("call_idle_ns", "idle"),
)  # fmt: skip
_SHOWN = {"wait_ns": "call_wait_ns", "idle_ns": "call_idle_ns"}
"""Times of calls whose names mean something else where they are shown."""
_OF_STEPS = (
    "computing_ns", "overlapped_ns", "communication_ns", "exposed_ns", "free_ns", "preparing_ns", "bubble_ns", "stage_ns",
)  # fmt: skip

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class StatedJob:
    """What the workers state, with a column ``worker`` first, restricted to the chosen steps."""

    names: tuple[str, ...]
    lacking: tuple[str, ...]
    """Workers that state nothing of their communication."""
    alone: tuple[str, ...]
    """Workers of which nothing but communication is recorded."""
    ranks: Mapping[str, int]
    ranks_at_least: int
    tables: Mapping[str, pa.Table]

    @cached_property
    def moving_ns(self) -> Mapping[str, int]:
        """Returns how long data moved for each worker, at most: of links side by side the sum."""
        if not self:
            return {}
        bands, calls = self.tables[MOVED], self.tables[CALLS]
        found: dict[str, int] = {}
        for table in (bands.filter(pc.is_null(bands["part_of"])), calls):
            for row in summed(table, ("worker",), ("transit_ns",)).to_pylist():
                found[row["worker"]] = max(found.get(row["worker"], 0), row["transit_ns"] or 0)
        return found

    def __bool__(self) -> bool:
        """Whether any worker states anything."""
        return bool(self.tables)


def stated_job(parts: Sequence[Part], names: Sequence[str], chosen: tuple[str, ...] | None) -> StatedJob:
    """Returns what the parts of the workers of these names state."""
    having = [(name, part) for name, part in zip(names, parts, strict=True) if RANK in part.frames]
    about = {name: part.frames[RANK].data.to_pylist()[0] for name, part in having}
    tables = {}
    for key in (STEPS, CALLS, MOVED, BETWEEN, MEMBERS) if having else ():
        every = [_of(name, part.frames[key].data) for name, part in having]
        table = pa.concat_tables(every)
        if chosen is not None and "step" in table.column_names:
            table = table.filter(pc.is_in(table["step"], pa.array(chosen, pa.string())))
        tables[key] = table
    telling = {name for name, part in having if part.frames[CALLS].data.num_rows}
    return StatedJob(
        names=tuple(names),
        lacking=tuple(name for name in names if name not in telling) if telling else (),
        alone=tuple(name for name, row in about.items() if row["alone"]),
        ranks={name: row["rank"] for name, row in about.items() if row["rank"] is not None},
        ranks_at_least=max((row["ranks_at_least"] for row in about.values()), default=0),
        tables=tables,
    )


def job_frames(job: StatedJob) -> dict[str, Frame]:
    """Returns the tables: communication by step, by what calls do, by kind of link, and links; those that have rows."""
    if not job:
        return {}
    every = (
        _frame("rank_steps", "Steps, as stated", step_rows(job), ("worker", "step"), "worker"),
        _frame("operation_types", "Kinds of calls", _type_rows(job), ("worker", "collective"), "collective"),
        _frame("kinds_of_links", "Kinds of links", _band_rows(job), ("worker", "link_kind"), "link_kind"),
        _frame("links", "Links", _link_rows(job), ("link_from", "link_to", "link_kind", "link_group"), "link_kind"),
    )
    return {frame.name: frame for frame in every if frame is not None}


def job_series(job: StatedJob) -> list[Series]:
    """Returns pictures: what steps consist of, what calls spend their time with, and maps of links."""
    if not job:
        return []
    return [*_step_times(job), *_call_times(job), *_maps(job)]


def job_notices(job: StatedJob) -> list[Notice]:
    """Returns what the numbers are not about."""
    notices = []
    if job.alone:
        text = (
            f"Of {', '.join(job.alone)} nothing but communication is recorded. Compute, overlap and the length of their "
            "steps are those that the profile states."
        )
        notices.append(Notice("communication_alone", "info", text, "Keep all files of the profile.", []))
    if job.lacking:
        text = f"No communication is stated of {', '.join(job.lacking)}: tables and maps of calls and links lack it."
        notices.append(Notice("communication_unstated", "info", text, "Record all ranks with the same options.", []))
    return notices


def step_rows(job: StatedJob) -> list[Row]:
    """Returns a row for each worker and step with the times that are stated of it."""
    rows: dict[tuple[str, str | None], Row] = {}
    for row in job.tables[STEPS].to_pylist():
        times = {key: row[key] for key in _OF_STEPS}
        times["device_free_ns"], times["job_communication_ns"] = times.pop("free_ns"), times.pop("communication_ns")
        rows[row["worker"], row["step"]] = {"worker": row["worker"], "step": row["step"], **times}
    for row in summed(job.tables[CALLS], ("worker", "step"), (*TIMES, "calls", "bytes")).to_pylist():
        key = row["worker"], row["step"]
        rows.setdefault(key, {"worker": key[0], "step": key[1]}).update(_call_times_of(row))
    order = {name: place for place, name in enumerate(job.names)}
    return sorted(rows.values(), key=lambda row: (order[row["worker"]], _number(row["step"])))


def _type_rows(job: StatedJob) -> list[Row]:
    found = summed(job.tables[CALLS], ("worker", "operation", "kind"), (*TIMES, "calls", "bytes"))
    return [
        {
            "worker": row["worker"],
            "collective": row["operation"],
            **_call_times_of(row),
            "mean_link_bytes": _over(row["bytes"], row["calls"]),
            "mean_elapse_ns": _over(row["elapse_ns"], row["calls"]),
            "mean_transit_ns": _over(row["transit_ns"], row["calls"]),
        }
        for row in found.to_pylist()
    ]


def _band_rows(job: StatedJob) -> list[Row]:
    sums = ("bytes", "transit_ns", "packets", "large")
    found = summed(job.tables[MOVED], ("worker", "band", "part_of"), sums).to_pylist()
    inside: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        inside[row["worker"], row["part_of"]].append(row)
    made = []
    for row in found:
        # Packets are stated of the parts of a kind of link alone.
        counted = [row] if row["packets"] else inside[row["worker"], row["band"]]
        packets, large = (sum(each[key] or 0 for each in counted) for key in ("packets", "large"))
        made.append(
            {
                "worker": row["worker"],
                "link_kind": row["band"],
                "link_part_of": row["part_of"],
                "link_bytes": row["bytes"],
                "link_ns": row["transit_ns"],
                "link_bandwidth": _speed(row["bytes"], row["transit_ns"]),
                "packets": packets or None,
                "large_share": large / packets if packets else None,
            }
        )
    return sorted(made, key=lambda row: (job.names.index(row["worker"]), row["link_part_of"] or row["link_kind"],
                                         row["link_part_of"] is not None, row["link_kind"]))  # fmt: skip


@dataclass(frozen=True)
class _Ends:
    """Where links of all ranks lead: by group and place in it the rank of the job."""

    rank: Mapping[tuple[str, int], int]
    name: Mapping[str, str]

    @classmethod
    def of(cls, job: StatedJob) -> _Ends:
        """Returns what ranks state of the members of their groups, each of itself and some of all."""
        rank: dict[tuple[str, int], int] = {}
        name = {}
        for row in job.tables[MEMBERS].to_pylist():
            group = row["group"]
            if row["name"]:
                name[group] = row["name"]
            if row["ranks"]:
                rank |= {(group, place): int(one) for place, one in enumerate(row["ranks"].split(","))}
            elif row["group_rank"] is not None and row["worker"] in job.ranks:
                rank[group, row["group_rank"]] = job.ranks[row["worker"]]
        return cls(rank, name)

    def label(self, group: str | None, place: int, *, in_group: bool) -> str:
        """Returns the rank of the job, or the place in a group of which nobody says who stands there."""
        if not in_group:
            return str(place)
        known = self.rank.get((group or "", place))
        return str(known) if known is not None else f"{place} in {self.title(group)}"

    def title(self, group: str | None) -> str:
        """Returns what a group is called in a few characters."""
        return self.name.get(group or "") or (f"…{group[-3:]}" if group and len(group) > 3 else group or "a group")


def _link_rows(job: StatedJob) -> list[Row]:
    """Links with both ends as they are shown. Of a link that both ends state, what its source says counts."""
    ends = _Ends.of(job)
    keys = ("worker", "group", "source", "destination", "in_group", "transport")
    stated: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in summed(job.tables[BETWEEN], keys, ("bytes", "transit_ns")).to_pylist():
        pair = tuple(ends.label(row["group"], row[end], in_group=row["in_group"]) for end in ("source", "destination"))
        stated[pair[0], pair[1]].append(row)
    made: dict[tuple[str, str, str | None, str | None], Row] = {}
    for (source, destination), rows in stated.items():
        own = [row for row in rows if str(job.ranks.get(row["worker"])) == source]
        for row in own or rows:
            group = ends.title(row["group"])
            into = made.setdefault(
                (source, destination, row["transport"], group),
                {"link_from": source, "link_to": destination, "link_kind": row["transport"], "link_group": group,
                 "link_bytes": 0, "link_ns": 0},
            )  # fmt: skip
            into["link_bytes"] += row["bytes"] or 0
            into["link_ns"] += row["transit_ns"] or 0
    for row in made.values():
        row["link_bandwidth"] = _speed(row["link_bytes"], row["link_ns"])
    return sorted(
        made.values(), key=lambda row: (_number(row["link_from"]), _number(row["link_to"]), row["link_group"])
    )


def _maps(job: StatedJob) -> list[Series]:
    moved: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for row in _link_rows(job):
        if row["link_from"] != row["link_to"]:
            sums = moved[row["link_from"], row["link_to"]]
            sums[0] += row["link_bytes"]
            sums[1] += row["link_ns"]
    if not moved:
        return []
    ranks = sorted({end for pair in moved for end in pair}, key=_number)
    sources, places = sorted({pair[0] for pair in moved}, key=_number), ranks[:MOST_DRAWN]
    subtitle = "from rank (row) to rank (column); copies within a rank are in the table"
    if len(ranks) > MOST_DRAWN:
        subtitle += f"; the first {MOST_DRAWN} of {len(ranks)} ranks"
    made = []
    for key, title in (("link_bandwidth", "Bandwidth of links"), ("link_bytes", "Bytes over links")):
        metric = METRICS.metric(key, window=CHOSEN)
        lines = []
        for source in sources[:MOST_DRAWN]:
            cells = [moved.get((source, place)) for place in places]
            values: list[int | float | None] = [
                None if cell is None else cell[0] if key == "link_bytes" else _speed(cell[0], cell[1]) for cell in cells
            ]
            lines.append(
                Line(msgspec.structs.replace(metric, key=source, title=f"Rank {source}"), "communication", values)
            )
        made.append(Series(f"map_{key}", title, subtitle, METRICS.metric("link_to", "To"), [*places], lines, "lines"))
    return made


def _step_times(job: StatedJob) -> list[Series]:
    """A bar for each worker: what its mean step consists of."""
    table = job.tables[STEPS]
    place = pc.index_in(table["worker"], pa.array(job.names)).cast(pa.int64())
    columns = {key: table[key].combine_chunks() for key in table.column_names if key != "worker"}
    numbered = job_table(STEP_TIMES, {**columns, "rank": place.combine_chunks()})
    means = rank_means(numbered)
    if not means:
        return []
    series = step_bars("step_times", "Step time, as stated", "mean step", "worker", means)
    names = [job.names[each.ranks[0]] for each in means]
    return [msgspec.structs.replace(series, x=[*names])]


def _call_times(job: StatedJob) -> list[Series]:
    """A bar for each worker: what its calls spend their time with in the mean step."""
    found = summed(job.tables[CALLS], ("worker",), (*TIMES, "calls", "bytes")).to_pylist()
    by_worker = {row["worker"]: _call_times_of(row) for row in found}
    names = [name for name in job.names if name in by_worker]
    if not names:
        return []
    counted = job.tables[CALLS].group_by("worker", use_threads=False).aggregate([("step", "count_distinct")])
    steps = dict(zip(counted["worker"].to_pylist(), counted["step_count_distinct"].to_pylist(), strict=True))
    lines = []
    for key, category in _PARTS:
        values = [by_worker[name].get(key) for name in names]
        lines.append(
            Line(
                METRICS.metric(key, window="mean of the chosen steps"),
                category,
                [None if v is None else max(v, 0) / max(steps[name], 1) for v, name in zip(values, names, strict=True)],
            )
        )
    x = METRICS.metric("worker")
    return [
        Series(
            "call_times", "Communication, as stated", "mean step, calls one by one", x, [*names], lines, "stacked_bars"
        )
    ]


def _call_times_of(row: Row) -> Row:
    """Times of calls as they are shown: waiting is split into that before data move and the rest."""
    made = {_SHOWN.get(key, key): row[key] for key in TIMES}
    wait, before = row["wait_ns"], row["synchronization_ns"]
    made["wait_rest_ns"] = None if wait is None or before is None else wait - before
    return {**made, "job_calls": row["calls"], "link_bytes": row["bytes"]}


_COLUMNS = {
    "rank_steps": (
        "worker", "step", "computing_ns", "overlapped_ns", "job_communication_ns", "exposed_ns", "device_free_ns",
        "preparing_ns", "bubble_ns", "stage_ns", "job_calls", "elapse_ns", "transit_ns", "synchronization_ns",
        "wait_rest_ns", "call_idle_ns", "link_bytes",
    ),
    "operation_types": (
        "worker", "collective", "job_calls", "link_bytes", "mean_link_bytes", "elapse_ns", "mean_elapse_ns", "transit_ns",
        "mean_transit_ns", "synchronization_ns", "wait_rest_ns", "call_idle_ns",
    ),
    "kinds_of_links": (
        "worker", "link_kind", "link_part_of", "link_bytes", "link_ns", "link_bandwidth", "packets", "large_share",
    ),
    "links": ("link_from", "link_to", "link_kind", "link_group", "link_bytes", "link_ns", "link_bandwidth"),
}  # fmt: skip


def _frame(name: str, title: str, rows: Sequence[Row], keys: tuple[str, ...], named: str) -> Frame | None:
    if not rows:
        return None
    data = {key: pa.array([row.get(key) for row in rows], _TYPES[METRICS[key].unit]) for key in _COLUMNS[name]}
    empty = {key for key, column in data.items() if column.null_count == len(column) and key not in keys}
    columns = [Column(METRICS.metric(key, window=CHOSEN), hidden=key in empty) for key in data]
    return Frame(name, title, columns, pa.table(data), keys, named)


_TYPES = {
    "ns": pa.int64(), "bytes": pa.int64(), "count": pa.int64(), "bytes_per_second": pa.int64(), "ratio": pa.float64(),
    "text": pa.string(), "code": pa.string(),
}  # fmt: skip


def _of(name: str, table: pa.Table) -> pa.Table:
    return table.add_column(0, "worker", pa.array([name] * table.num_rows, pa.string()))


def _over(value: int | None, count: int | None) -> int | None:
    return value // count if value is not None and count else None


def _speed(size: int | None, time: int | None) -> int | None:
    return size * 1_000_000_000 // time if size is not None and time else None


def _number(label: str | None) -> tuple[bool, int, str]:
    """Numbers by their value, before all other labels."""
    text = label or ""
    return not text.isdecimal(), int(text) if text.isdecimal() else 0, text
