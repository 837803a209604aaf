"""Text files of job analyses, from tools since 2023."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tb_plugin.formats.ascend.cluster.numbers import rank_of, ranks_in, scaled_integer, step_of
from tb_plugin.formats.ascend.cluster.rows import Rows, kind_of_call, text_of
from tb_plugin.formats.ascend.communication_titles import (
    BANDWIDTH,
    CALL_TITLES,
    EXAMPLE,
    MB,
    MOVED_BY_CALL,
    MS,
    PACKETS_OF_LINK,
    RATIO,
    SIZE,
    START,
    STEP_TITLES,
    TIMES_OF_CALL,
    TOTAL,
    TRANSIT,
    TRANSPORT,
    US,
)
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.model.trace.job_tables import GROUPS, PACKETS, STEP_TIMES

_INDEXES = {"dp_index": "DP Index", "pp_index": "PP Index", "tp_index": "TP Index"}
_TIMES = (START, *CALL_TITLES.values())
_LINK = (TRANSPORT, SIZE, TRANSIT, BANDWIDTH, EXAMPLE)
NEEDED = ("Type", "Index")  # columns that identify a row of times
MOST_NAME = 4096
P2P = "p2p"  # key used instead of ranks for the sends and receives of all groups (tools of 2023)


def steps_into(table: CsvTable, rows: Rows) -> None:
    """Adds step times: one row per rank or pipeline stage."""
    titles = ("Step", *NEEDED, *STEP_TITLES.values(), *_INDEXES.values())
    cells = {title: table.texts(title).to_pylist() for title in titles}
    for place in range(table.rows):
        row = {title: column[place] for title, column in cells.items()}
        values = {key: scaled_integer(row[title], US, rows.log) for key, title in STEP_TITLES.items()}
        values |= {key: rank_of(row[title]) for key, title in _INDEXES.items()}
        step_into(rows, row["Step"], row["Type"], row["Index"], values)


def step_into(rows: Rows, step: Any, kind: Any, index: Any, values: Mapping[str, Any]) -> None:
    """Adds the step times of one rank or pipeline stage. Logs rows of any other kind."""
    if kind == "rank" and (rank := rank_of(index)) is not None:
        rows.add(STEP_TIMES, rank=rank, step=step_of(step), **values)
    elif kind == "stage" and (ranks := ranks_in(index)):
        rows.add(STEP_TIMES, stage_ranks=ranks_text(ranks), step=step_of(step), **values)
    else:
        rows.log.add("bad_row", "dropped", example=f"{kind}, {index}")


def communication_into(document: Mapping[str, Any], rows: Rows) -> dict[str, list[int]]:
    """Adds communication calls and the data that they moved. Returns the known ranks of each group.

    Skips rows with totals over all calls.
    """
    groups: dict[str, list[int]] = {}
    for outer, step, name, group, ranks in _calls(document, rows):
        if group is not None and group not in groups:
            groups[group] = ranks_in(outer) if outer != P2P else []
        if name == TOTAL:
            continue
        kind = P2P if outer == P2P else kind_of_call(name)
        for text, info in ranks.items():
            rank = rank_of(text)
            if rank is None or not isinstance(info, dict):
                rows.log.add("bad_row", "dropped", example=text)
                continue
            call = {"rank": rank, "step": step, "kind": kind, "operation": name, "group": group}
            times = _object(info, TIMES_OF_CALL)
            if times:
                rows.operation(call, [times.get(title) for title in _TIMES])
            else:
                rows.log.add("bad_row", "dropped", example=name)
            for band, moved in _object(info, MOVED_BY_CALL).items():
                if isinstance(moved, dict):
                    _band_into(rows, call, band, moved)
                else:
                    rows.log.add("bad_row", "dropped", example=band)
    return groups


def _band_into(rows: Rows, call: Mapping[str, Any], band: str, moved: Mapping[str, Any]) -> None:
    rows.band(call, band, moved.get(SIZE), moved.get(TRANSIT), moved.get(RATIO))
    for size, packets in _object(moved, PACKETS_OF_LINK).items():
        if isinstance(packets, list) and len(packets) == 2:
            packets_into(rows, call, band, size, packets[0], packets[1])
        else:
            rows.log.add("bad_row", "dropped", example=size)


def packets_into(rows: Rows, call: Mapping[str, Any], band: str, size: Any, count: Any, time: Any) -> None:
    """Adds a call's packets of one size."""
    rows.add(
        PACKETS,
        **call,
        band=band,
        packet_bytes=scaled_integer(size, MB, rows.log),
        count=scaled_integer(count, 0, rows.log),
        transit_ns=scaled_integer(time, MS, rows.log),
    )


def matrix_into(document: Mapping[str, Any], rows: Rows) -> None:
    """Adds links between ranks of the job."""
    for outer, step, name, group, links in _calls(document, rows):
        for text, link in links.items():
            source, _, destination = text.partition("-")
            ends = rank_of(source), rank_of(destination)
            if ends[0] is None or ends[1] is None or not isinstance(link, dict):
                rows.log.add("bad_row", "dropped", example=text)
                continue
            kind = P2P if outer == P2P else None
            rows.link(step, name, group, (ends[0], ends[1]), [link.get(title) for title in _LINK], kind)


def groups_into(document: Mapping[str, Any], rows: Rows) -> None:
    """Adds groups of ranks, and pipeline stages if the file has them.

    A list of ranks under "p2p" is a stage, unless a group for sends and receives has the same ranks. Stages are not
    read from a truncated file, which may lack such groups.
    """
    named = []
    is_cut = any(code == "truncated_tail" for code, _ in rows.log.entries)
    kinds = ("collective",) if is_cut else ("collective", P2P)
    parallel = document.get("comm_group_parallel_info")
    for each in parallel if isinstance(parallel, list) else ():
        if not isinstance(each, dict) or not (ranks := ranks_in(each.get("rank_set"))):
            rows.log.add("bad_row", "dropped", example=str(each))
            continue
        if each.get("group_name"):
            named.append((each.get("type"), ranks))
            group_into(rows, ranks, each.get("type"), each["group_name"], each.get("pg_name"), each.get("group_id"))
    for kind in kinds:
        lists = document.get(kind)
        for each in lists if isinstance(lists, list) else ():
            ranks = ranks_in(each)
            if ranks and (kind, ranks) not in named:
                group_into(rows, ranks, "stage" if kind == P2P else kind)


def group_into(
    rows: Rows, ranks: list[int], kind: Any, group: Any = None, name: Any = None, library: Any = None
) -> None:
    rows.add(
        GROUPS,
        kind=text_of(kind),
        group=text_of(group),
        name=text_of(name),
        library_name=text_of(library),
        ranks=ranks_text(ranks),
    )


def ranks_text(ranks: list[int]) -> str:
    """Formats ranks as the tables do."""
    return ", ".join(map(str, ranks))


def _calls(
    document: Mapping[str, Any], rows: Rows
) -> Iterator[tuple[str, str | None, str, str | None, dict[str, Any]]]:
    """Yields each call: the ranks of its group as text, step, name, group and details."""
    for outer, steps in document.items():
        if not isinstance(steps, dict):
            rows.log.add("bad_row", "dropped", example=outer)
            continue
        for step, calls in steps.items():
            if not isinstance(calls, dict):
                rows.log.add("bad_row", "dropped", example=step)
                continue
            named = [key[:MOST_NAME].partition("@") for key in calls]
            groups = {group for _, _, group in named if group}
            for (name, _, group), stated in zip(named, calls.values(), strict=True):
                if not isinstance(stated, dict):
                    rows.log.add("bad_row", "dropped", example=name)
                    continue
                # Older totals contain no group. If there is only one group, it is used.
                single_group = next(iter(groups)) if name == TOTAL and len(groups) == 1 else None
                yield outer, step_of(step), name, group or single_group, stated


def _object(found: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = found.get(key)
    return value if isinstance(value, dict) else {}
