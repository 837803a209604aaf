"""The data of an HTML report."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.catalog import Profile
from tb_plugin.payloads.timeline import Timeline
from tb_plugin.payloads.view import View


class ReportView(Struct, frozen=True):
    """A view of the report. ``omitted`` contains the titles of its payloads that are not in the file."""

    id: str
    title: str
    page: str
    page_title: str
    view: View | None
    why: str = ""
    """Reason why ``view`` is None."""
    omitted: list[str] = []


class ReportEvents(Struct, frozen=True):
    """Timeline items as columns, sorted by lane, row and start.

    The first ``items[0]`` items are in row ``row[0]`` of track ``lane[0]``, and so on. ``start_delta_ns`` is the start
    minus the start of the previous item. ``idle_ns``, ``count``, ``matrix`` and ``module`` are empty if all their values
    are 0 (``count``: 1). ``name`` and ``module`` are indices in ``names`` and ``modules``.
    """

    lane: list[int]
    row: list[int]
    items: list[int]
    start_delta_ns: list[int]
    dur_ns: list[int]
    idle_ns: list[int]
    count: list[int]
    event: list[int]
    category: list[int]
    matrix: list[int]
    name: list[int]
    names: list[str]
    module: list[int]
    modules: list[str]


class ReportTimeline(Struct, frozen=True):
    """The timeline of a window. ``head`` is limited to the window, and has one level with one tile.

    Events shorter than ``head.levels[0].cell_ns`` are merged if the window has too many events.
    """

    head: Timeline
    events: ReportEvents


class Report(Struct, frozen=True, tag_field="kind", tag="report"):
    """All data of the file. ``path`` is the location of the recording for ``torch-trace view``."""

    version: str
    created_unix_ms: int
    recorded_unix_ms: int | None
    path: str
    is_redacted: bool
    steps: str
    phase: str
    compared_with: str
    """Run, worker and span of the baseline; empty if the report compares nothing."""
    profile: Profile
    views: list[ReportView]
    timeline: ReportTimeline | None
    other_profiles: int
    """Number of profiles at ``path`` that are not in the report."""
