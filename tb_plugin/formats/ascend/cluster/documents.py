"""Calls, links and groups in the JSON files of job analyses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tb_plugin.formats.ascend.communication.calls import COLLECTIVE, P2P, Entry, kind_of, step_label
from tb_plugin.formats.ascend.communication.groups import rank_of, ranks_text
from tb_plugin.formats.ascend.communication.schema import TOTAL
from tb_plugin.formats.issues import IssueLog

_MAX_NAME = 4096
Group = dict[str, str | None]  # a row of the table of groups


def call_entries(document: Mapping[str, Any], log: IssueLog) -> Iterator[Entry]:
    """Yields the calls of all ranks, except totals."""
    for outer, step, name, group, ranks in _calls(document, log):
        if name == TOTAL:
            continue
        for text, about in ranks.items():
            rank = rank_of(text)
            if rank is not None and isinstance(about, dict):
                yield (rank, step, P2P if outer == P2P else kind_of(name), name, group), about
            else:
                log.add("bad_row", "dropped", example=text)


def link_entries(document: Mapping[str, Any], log: IssueLog) -> Iterator[Entry]:
    """Yields the links of each call."""
    for outer, step, name, group, links in _calls(document, log):
        yield (None, step, P2P if outer == P2P else kind_of(name), name, group), links


def ranks_of_groups(document: Mapping[str, Any]) -> dict[str, str | None]:
    """Returns the ranks of each group in the file of calls; None = unknown."""
    found: dict[str, str | None] = {}
    for outer, _, _, group, _ in _calls(document, IssueLog()):
        if group is not None and group not in found:
            found[group] = ranks_text(outer) if outer != P2P else None
    return found


def groups_in(document: Mapping[str, Any], log: IssueLog) -> list[Group]:
    """Returns groups of ranks, and pipeline stages if the file has them.

    A list of ranks under "p2p" is a stage, unless a group for sends and receives has the same ranks. Stages are not
    read from a truncated file, which may lack such groups.
    """
    parallel = document.get("comm_group_parallel_info")
    rows = parallel if isinstance(parallel, list) else []
    good = [each for each in rows if isinstance(each, dict) and ranks_text(each.get("rank_set"))]
    if len(good) < len(rows):
        log.add("bad_row", "dropped", count=len(rows) - len(good))
    found = groups_of([each for each in good if each.get("group_name")])
    named = {(group["kind"], group["ranks"]) for group in found}
    is_cut = any(code == "truncated_tail" for code, _ in log.entries)
    for kind in (COLLECTIVE,) if is_cut else (COLLECTIVE, P2P):
        lists = document.get(kind)
        for each in lists if isinstance(lists, list) else ():
            if (ranks := ranks_text(each)) and (kind, ranks) not in named:
                found.append({"kind": "stage" if kind == P2P else kind, "ranks": ranks})
    return found


def groups_of(rows: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Returns the groups with a name, and pipeline stages, which have none."""
    found = []
    for row in rows:
        kind, group, name, library = (_text(row.get(key)) for key in ("type", "group_name", "pg_name", "group_id"))
        if (ranks := ranks_text(row.get("rank_set"))) and (group or kind == P2P):
            kind = kind if group else "stage"
            found.append({"kind": kind, "group": group, "name": name, "library_name": library, "ranks": ranks})
    return found


def with_names(groups: list[Group], ranks: Mapping[str, str | None]) -> list[Group]:
    """Adds names, and groups without a row, from the file of calls. ``ranks``: ranks of each of its groups."""
    known = {row.get("group") for row in groups}
    unnamed: dict[str | None, list[Group]] = defaultdict(list)
    for row in groups:
        if not row.get("group") and row["kind"] == COLLECTIVE:
            unnamed[row["ranks"]].append(row)
    for group in ranks:
        if group in known or not ranks[group]:
            continue
        if found := unnamed.get(ranks[group]):
            found.pop(0)["group"] = group
        else:
            groups.append({"kind": None, "group": group, "ranks": ranks[group]})
    return groups


def _calls(
    document: Mapping[str, Any], log: IssueLog
) -> Iterator[tuple[str, str | None, str, str | None, dict[str, Any]]]:
    """Yields each call: the ranks of its group as text, step, name, group and details."""
    for outer, steps in document.items():
        if not isinstance(steps, dict):
            log.add("bad_row", "dropped", example=outer)
            continue
        for step, calls in steps.items():
            if not isinstance(calls, dict):
                log.add("bad_row", "dropped", example=step)
                continue
            named = [key[:_MAX_NAME].partition("@") for key in calls]
            groups = {group for _, _, group in named if group}
            for (name, _, group), stated in zip(named, calls.values(), strict=True):
                if not isinstance(stated, dict):
                    log.add("bad_row", "dropped", example=name)
                    continue
                # Older totals contain no group. If there is only one group, it is used.
                single_group = next(iter(groups)) if name == TOTAL and len(groups) == 1 else None
                yield outer, step_label(step), name, group or single_group, stated


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
