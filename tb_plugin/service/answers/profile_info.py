"""State of one profile, and its views after loading."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.model_kinds.base import Model
from tb_plugin.payloads import Loading, Profile, Stage, ViewInfo
from tb_plugin.service.catalog import problem_of
from tb_plugin.service.states import Entry
from tb_plugin.service.summaries import VIEW
from tb_plugin.service.workers.parse import Summary, expected_view
from tb_plugin.service.workers.question import Progress

# Stages whose progress in bytes is known.
_MEASURED = ("copying", "surveying", "reading")


def navigation(entry: Entry) -> list[ViewInfo]:
    """Returns the views of a profile in navigation order. The list is empty until the profile is loaded."""
    return [] if entry.summary is None else entry.summary.views


def with_others(profile: Profile, entry: Entry, workers: Sequence[Entry]) -> Profile:
    """Adds views of all workers to a profile, if at least one worker in ``workers`` has the data for them.

    Reads no profile. A worker that is not loaded yet counts as having the data. However, a view that is normally
    hidden is added only if a loaded worker has the data.
    """
    model = registry.model_of(entry.files.reader)
    others = [
        each.now
        for each in workers
        if each.key != entry.key and registry.model_of(each.files.reader).type is model.type
    ]
    unread = any(now.state in ("found", "loading") for now in others)
    known = {view.id for now in others if now.summary for view in now.summary.views if view.available}
    own = {view.id: view for view in (*profile.views, *profile.absent)}
    about_all = [each for each in registry.views_of(model) if each.scope == "workers" and each.id in own]
    theirs = {
        each.id: expected_view(each)
        for each in about_all
        if not own[each.id].available and (each.id in known or (unread and not each.traits.hidden))
    }
    if not theirs:
        return profile
    shown = {view.id: view for view in profile.views} | theirs
    order = [each.id for each in registry.views_of(model)]
    return replace(
        profile,
        views=sorted(shown.values(), key=lambda view: order.index(view.id)),
        absent=[view for view in profile.absent if view.id not in theirs],
    )


def _expected(model: Model[Any, Any]) -> list[ViewInfo]:
    shown = [analysis for analysis in registry.views_of(model) if analysis.traits.place != "detail"]
    return [expected_view(each) for each in shown if not each.traits.hidden]


def unready_profile(entry: Entry) -> Profile:
    """Returns the loading state; ``loading`` if ready or failed by now, so that the client asks again."""
    profile = profile_of(entry)
    return profile if profile.state in ("found", "loading") else progress(entry, 1, 1.0)


def progress(entry: Entry, count: int, fraction: float) -> Profile:
    """Returns the loading state of ``count`` profiles; ``fraction`` is the sum of their loaded fractions."""
    return Profile(entry.files.run, "", entry.files.span, "loading", fraction / count, 0)


def profile_of(entry: Entry) -> Profile:
    now = entry.now
    summary, stage = now.summary, entry.progress(now)
    model = registry.model_of(entry.files.reader)
    return Profile(
        run=entry.files.run,
        worker=entry.files.worker,
        span=entry.files.span,
        state=now.state,
        fraction=now.fraction,
        events_read=summary.read.events_in_file if summary else stage.events,
        problem=problem_of(now.problem) if now.problem else None,
        views=summary.views if summary else _expected(model),
        steps=summary.steps if summary else [],
        read=summary.read if summary else None,
        data_notice_count=summary.data_notice_count if summary else 0,
        loading=_loading(stage) if now.state == "loading" else None,
        window=summary.window if summary else None,
        model=model.id,
        default_view=model.default_view if entry.files.is_present else VIEW,
        features=[each for each in model.features if entry.files.is_present or each != "events"],
        clock=summary.clock if summary else None,
        trace_steps=summary.trace_steps if summary else [],
        absent=summary.absent if summary else [],
        device_word=summary.device_word if summary else "GPU",
    )


def by_summary(entry: Entry, known: Summary) -> Profile:
    """Returns the state of a profile whose trace is not loaded, from its rank summary. The state is ``ready``."""
    return replace(
        profile_of(entry),
        state="ready",
        fraction=1.0,
        events_read=known.read.events_in_file,
        steps=known.steps,
        read=known.read,
    )


def _loading(now: Progress) -> Loading:
    return Loading(
        stage=cast(Stage, now.stage),
        seconds=max(0.0, time.monotonic() - now.since),
        fraction=now.fraction if now.stage in _MEASURED else None,
        counts=dict(now.counts),
        about=list(now.profile_info),
    )
