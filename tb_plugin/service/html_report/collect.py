"""Answers of all pages about one profile, limited in size."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from tb_plugin import __version__, registry
from tb_plugin.analysis.base import Params
from tb_plugin.errors import TorchTraceError
from tb_plugin.payloads import (
    Bands,
    Counters,
    Flows,
    Heat,
    MemoryFlowMap,
    MemoryMap,
    Payload,
    Profile,
    Report,
    ReportTimeline,
    ReportView,
    Table,
    Timeline,
    Tree,
    View,
    ViewInfo,
)  # fmt: skip
from tb_plugin.service.answers.sql_answers import RANKS_VIEW
from tb_plugin.service.answers.step_selection import window_of
from tb_plugin.service.catalog import Place
from tb_plugin.service.states import Entry
from tb_plugin.service.workspace import Workspace

ROWS = 50
MAX_EVENTS = 50_000
# Rows per finding in the table of its events.
_EVIDENCE_ROWS = 10
_MAX_ROWS = 1000
# A larger payload is left out.
_MAX_PAYLOAD_BYTES = 600_000
# The page draws these from further requests.
_DRAWN_ON_REQUEST = (Timeline, Flows, Counters, Bands, MemoryMap, MemoryFlowMap, Heat)
_TITLES = {
    Timeline: "Timeline",
    Flows: "Arrows",
    Counters: "Counters",
    MemoryMap: "Memory map",
}
# A timeline has its own part, and a query asks the user.
_NOT_ASKED = ("timeline", "sql")
_EVIDENCE = ("findings", "finding_events")


class Wanted(msgspec.Struct, frozen=True):
    """The content of a report.

    ``start_ns`` and ``end_ns`` select the window of the timeline; None: the selected steps, else the first step.
    ``compare`` contains the parameters of the view that compares two profiles; empty: nothing is compared.
    """

    place: Place
    steps: str = ""
    phase: str = ""
    pattern: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    rows: int = ROWS
    events: int = MAX_EVENTS
    compare: tuple[tuple[str, str], ...] = ()


def collect(workspace: Workspace, wanted: Wanted, path: str, waits: bool) -> Report | Profile:
    """Returns the data, or the loading state of the profile or of the baseline.

    With ``waits``, the ranks of a run are read. Otherwise views of all ranks are included only if they are cached.
    Raises UserError.
    """
    place = wanted.place
    profile = workspace.profile(place)
    if waits:
        workspace.load(place)
        profile = workspace.profile(place)
    if profile.state != "ready":
        return profile
    entry = workspace.catalog.find(place)
    views = []
    for info in profile.views:
        scope = registry.analysis_by_id(info.id).scope
        if info.id in _NOT_ASKED or (scope == "pair" and not wanted.compare):
            continue
        if not info.available:
            views.append(_part(info, None, f"{info.why} {info.enable}".strip()))
            continue
        try:
            answer = _answer(workspace, wanted, entry, info, scope, waits)
        except TorchTraceError as error:
            views.append(_part(info, None, str(error)))
            continue
        if isinstance(answer, Profile):
            if scope != "workers":
                return answer
            views.append(_part(info, None, "The other ranks were not read. Open this page first, then save the file."))
            continue
        views.append(_cut(info, msgspec.json.decode(answer, type=View)))
    timeline = _timeline(workspace, wanted, entry, profile)
    if isinstance(timeline, Profile):
        return timeline
    return Report(
        version=__version__,
        created_unix_ms=round(time.time() * 1000),
        recorded_unix_ms=entry.files.time_unix_ms,
        path=path,
        is_redacted=False,
        steps=wanted.steps,
        phase=wanted.phase,
        compared_with=_baseline(wanted),
        profile=replace(profile, views=[], absent=[], loading=None),
        views=views,
        timeline=timeline,
        other_profiles=sum(each.files.root is entry.files.root for each in workspace.catalog.entries()) - 1,
    )


def _answer(
    workspace: Workspace, wanted: Wanted, entry: Entry, info: ViewInfo, scope: str, waits: bool
) -> bytes | Profile:
    place, params = wanted.place, Params(phase=wanted.phase, pattern=wanted.pattern, limit=wanted.rows)
    if scope == "workers":
        place = replace(place, worker=None, run=entry.files.run, span=entry.files.span)
    elif scope == "pair":
        params = replace(params, extra=wanted.compare)

    def ask(params: Params) -> bytes | Profile:
        if waits and scope != "profile":
            return workspace.group(place, info.id, params, wanted.steps)
        return workspace.view(place, info.id, params, wanted.steps, known=scope == "workers")

    answer = ask(params)
    if info.id == RANKS_VIEW and not isinstance(answer, Profile):
        of_rank = ask(replace(params, extra=(("of", entry.files.worker),)))
        return of_rank if isinstance(of_rank, Profile) else _joined(answer, of_rank)
    if info.id != _EVIDENCE[0] or isinstance(answer, Profile):
        return answer
    events = workspace.view(place, info.id, replace(params, table=_EVIDENCE[1], limit=_MAX_ROWS), wanted.steps)
    if isinstance(events, Profile):
        return events
    view, table = msgspec.json.decode(answer, type=View), msgspec.json.decode(events, type=Table)
    return msgspec.json.encode(replace(view, payloads={**view.payloads, _EVIDENCE[1]: _first_of_each(table)}))


def _joined(answer: bytes, of_rank: bytes) -> bytes:
    """Adds the sentence about one rank to the view of all ranks."""
    view, rank = (msgspec.json.decode(each, type=View) for each in (answer, of_rank))
    return msgspec.json.encode(replace(view, payloads={**rank.payloads, **view.payloads}))


def _first_of_each(table: Table) -> Table:
    seen: dict[object, int] = {}
    rows = []
    for row in table.rows:
        rule = row.get("rule")
        seen[rule] = seen.get(rule, 0) + 1
        if seen[rule] <= _EVIDENCE_ROWS:
            rows.append(row)
    return replace(table, rows=rows)


def _part(info: ViewInfo, view: View | None, why: str = "", omitted: tuple[str, ...] = ()) -> ReportView:
    return ReportView(info.id, info.title, info.page, info.page_title, view, why, list(omitted))


def _cut(info: ViewInfo, view: View) -> ReportView:
    """Leaves out payloads that the file cannot draw, and large ones."""
    payloads: dict[str, Payload] = {}
    omitted = []
    for name, payload in view.payloads.items():
        if isinstance(payload, _DRAWN_ON_REQUEST) or _is_large(payload):
            omitted.append(_TITLES.get(type(payload)) or getattr(payload, "title", "") or name)
        else:
            payloads[name] = payload
    return _part(info, replace(view, payloads=payloads), omitted=tuple(dict.fromkeys(omitted)))


def _is_large(payload: Payload) -> bool:
    # Only trees and tables can be large: other payloads have the size of a picture.
    return isinstance(payload, Table | Tree) and len(msgspec.json.encode(payload)) > _MAX_PAYLOAD_BYTES


def _timeline(workspace: Workspace, wanted: Wanted, entry: Entry, profile: Profile) -> ReportTimeline | Profile | None:
    if not any(info.id == "timeline" and info.available for info in profile.views):
        return None
    start, end = wanted.start_ns, wanted.end_ns
    if start is None and end is None:
        steps = wanted.steps or (profile.steps[0].label if profile.steps else "")
        start, end = window_of(steps, profile.steps, None, None)
    answer = workspace.report_timeline(wanted.place, start, end, wanted.events)
    return answer if isinstance(answer, Profile) else msgspec.json.decode(answer, type=ReportTimeline)


def _baseline(wanted: Wanted) -> str:
    named = dict(wanted.compare)
    return " / ".join(filter(None, (named.get(f"base_{part}", "") for part in ("run", "worker", "span"))))


def names_of(workspace: Workspace) -> Iterator[tuple[str, str, str]]:
    """Yields run, worker and path of each profile, for redaction."""
    for entry in workspace.catalog.entries():
        yield entry.files.run, entry.files.worker, entry.files.url
