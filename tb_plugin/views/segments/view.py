"""Memory blocks and gaps of a device after any event."""

from __future__ import annotations

import numpy as np

from tb_plugin.analysis.base import Params, Part, int_param
from tb_plugin.analysis.phrases import count_with_noun, plural
from tb_plugin.analysis.snapshot.curve import detail
from tb_plugin.analysis.snapshot.device_levels import (
    DeviceLevels,
    devices_of,
    levels_of,
    levels_of_device,
    moment_of,
    ooms_of,
)
from tb_plugin.analysis.snapshot.labels import NO_HISTORY, pool_texts, stream_texts
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.moment import Moment, moment_at, pinned_by, stuck_of
from tb_plugin.analysis.snapshot.out_of_memory import RunningOut, in_way_of, last_ooms, ran_out, sentence_of
from tb_plugin.analysis.view_entry import DeclaredView
from tb_plugin.model.snapshot.table import NEVER, Action, Snapshot
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.payloads import CoverageInfo, Figure, Figures, Line, Link, Metric, Notice, Notices, Payload, Series
from tb_plugin.views.segments import VIEW
from tb_plugin.views.segments.picture import picture_of
from tb_plugin.views.segments.summary import gap_sizes_of, oom_of, place_of, summary_of, usual_request
from tb_plugin.views.segments.tables import (
    blocks_frame,
    obstacles_frame,
    oom_moments_frame,
    pinning_frame,
    pools_frame,
    segments_frame,
)


class Segments(DeclaredView, entry=VIEW):
    own = ("device", "at", "size")

    def part(self, snapshot: Snapshot, params: Params) -> Part:
        device = levels_of_device(snapshot, params)
        requested = moment_of(device, params)
        at = levels_of(device).peak() if requested is None else requested
        moment = moment_at(device, at)
        ooms = last_ooms(device)
        oom = ran_out(device, at) if at >= 0 and device.action[at] == Action.OOM else None
        size = int_param(params, "size")
        request = usual_request(moment, oom) if size is None else max(size, 0)
        by_bytes, by_count = gap_sizes_of(moment)
        payloads: dict[str, Payload] = {
            "answer": _answer_of(moment, oom),
            "moment": summary_of(moment),
            "place": place_of(device, at),
            "map": picture_of(moment, in_way_of(oom, moment)),
            "gap_sizes": by_bytes,
            "gap_counts": by_count,
            "request": Figures("request", "Request", "", [METRICS.figure("request_bytes", request)]),
            "devices": Figures("devices", "Devices", "", [
                Figure(Metric(f"device.{each.name}", each.name, "count", "Events on the device."), each.count)
                for each in devices_of(snapshot)
            ]),
        }  # fmt: skip
        if oom is not None:
            payloads["oom"] = oom_of(oom)
        if device.count:
            payloads["reserved"] = _reserved_of(device)
        frames = {
            "segments_at": segments_frame(moment),
            "pools_at": pools_frame(moment, request),
            "blocks_in_way": pinning_frame(moment),
            "blocks_at": blocks_frame(moment),
            "oom_moments": oom_moments_frame(device, ooms),
            "oom_obstacles": obstacles_frame(device, oom or (ooms[-1] if ooms else None)),
        }
        layout = (*payloads, "pools_at", "blocks_in_way", "oom_moments", "oom_obstacles")
        return Part(CoverageInfo(complete=snapshot.report.complete), {}, frames, payloads, layout)


def _answer_of(moment: Moment, oom: RunningOut | None) -> Notices:
    if oom is not None:
        text, figures = sentence_of(oom)
        notices = [Notice("segments_moment", "high", text, "", figures)]
    else:
        notices = [*_other_oom(moment), _free(moment)]
    return Notices("answer", "Answer", "answer", notices)


def _free(moment: Moment) -> Notice:
    device, gaps = moment.levels, len(moment.gaps.size)
    stuck = int(stuck_of(moment).sum())
    when = (
        "After event {event_number}" if moment.event >= 0 else "Before the first recorded event" if device.count else ""
    )
    if device.count and moment.event == levels_of(device).peak():
        when += " (the peak of allocated bytes)"
    if moment.free:
        text = f"{{free_now_bytes}} of {{segment_bytes}} of reserved memory are free, in {{gaps_now}} {plural(gaps, 'gap')}"
        text += ", the largest {widest_gap_bytes}" if gaps > 1 else ""
        text += (
            ". {stuck_bytes} cannot be returned to the driver because their segments are partly in use" if stuck else ""
        )
        text += ", each by several blocks" if stuck and not pinned_by(moment).any() else ""
    else:
        text = "all {segment_bytes} of reserved memory are in use" if moment.reserved else "no memory is reserved"
    text = f"{when}, {text}" if when else f"{text[0].upper()}{text[1:]}"
    if not device.count:
        text = f"{NO_HISTORY} {text}"
    values = {
        "event_number": moment.event,
        "free_now_bytes": moment.free,
        "segment_bytes": moment.reserved,
        "gaps_now": gaps,
        "widest_gap_bytes": moment.largest_gap,
        "stuck_bytes": stuck,
    }
    figures = METRICS.figures(values)
    return Notice("segments_moment", "info", f"{text}.", "", figures)


def _other_oom(moment: Moment) -> list[Notice]:
    ooms = ooms_of(moment.levels)
    if not len(ooms):
        return []
    event = int(ooms[0])
    text = "Memory ran out at event {event_number}."
    if len(ooms) > 1:
        text = "Memory ran out {oom_count} times, at event {event_number} first."
    figures = [METRICS.figure("event_number", event), METRICS.figure("oom_count", len(ooms))]
    link = Link("segments", {"device": moment.levels.name, "at": str(event)}, "Show that event")
    return [Notice("segments_ran_out", "high", text, "", figures, evidence=link)]


# Streams and pools with their own line, those with the largest peaks; the others share one line.
MAX_LINES = 8
# All slice colours except the colour of total reserved bytes.
COLORS = tuple(f"slice{i}" for i in range(MAX_LINES + 1) if i != 2)
# Columns of the curve.
WIDTH = 250


def _reserved_of(device: DeviceLevels) -> Series:
    begin, end, size = (device.segment(name).astype(np.int64) for name in ("begin", "end", "size"))
    keys = np.stack((device.segment("pool"), device.segment("stream")), axis=1)
    found, of = np.unique(keys, axis=0, return_inverse=True)
    of = of.reshape(-1)
    over = np.flatnonzero(end != NEVER)
    event = np.concatenate((begin, end[over]))
    change, whose = np.concatenate((size, -size[over])), np.concatenate((of, of[over]))
    at, place = np.unique(event, return_inverse=True)
    place = place.reshape(-1)
    ends = [MISSING, max(device.count - 1, MISSING)]
    x = np.unique(np.concatenate((at, np.array(ends))))
    total = np.zeros((len(found), len(x)), np.int64)
    np.add.at(total, (whose, np.searchsorted(x, at)[place]), change)
    total = np.cumsum(total, axis=1)
    kept = detail(x, [total.sum(axis=0)], WIDTH)
    most = np.argsort(-total.max(axis=1, initial=0), kind="stable")
    pools, streams = (
        pool_texts(device.snapshot, found[:, 0]).to_pylist(),
        stream_texts(device.snapshot, found[:, 1]).to_pylist(),
    )
    whole = Line(METRICS.metric("pool_reserved_bytes"), "memcpy", total.sum(axis=0)[kept].tolist())
    lines = [whole] if len(most) != 1 else []
    for i, one in enumerate(most[:MAX_LINES].tolist()):
        title = f"{pools[one] or 'unknown'} pool, stream {streams[one] or 'unknown'}"
        lines.append(Line(METRICS.metric("pool_reserved_bytes", title=title), COLORS[i], total[one, kept].tolist()))
    if len(most) > MAX_LINES:
        rest = total[most[MAX_LINES:]][:, kept].sum(axis=0)
        title = count_with_noun(len(most) - MAX_LINES, "other")
        lines.append(Line(METRICS.metric("pool_reserved_bytes", title=title), "rest", rest.tolist()))
    return Series("reserved", "Reserved by stream and pool", device.name, METRICS.metric("event_number"),
                  x[kept].tolist(), lines, "lines")  # fmt: skip
