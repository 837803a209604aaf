"""Segments: what the memory of a device looks like after any event: where its blocks lie, and what is free between them."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin.analysis.base import NO_BORROWED_NUMBERS, Missing, Params, Part, Scope, Traits, answer_view, int_param
from tb_plugin.analysis.snapshot.device_levels import devices_of, levels_of, levels_of_device, moment_of
from tb_plugin.analysis.snapshot.metrics import METRICS
from tb_plugin.analysis.snapshot.moment import moment_at
from tb_plugin.analysis.snapshot.out_of_memory import in_way_of, last_ooms, ran_out
from tb_plugin.model.snapshot.table import Action, Snapshot
from tb_plugin.payloads import CoverageInfo, Figure, Figures, Metric, Payload, Table, View
from tb_plugin.views.segments.answer import answer_of
from tb_plugin.views.segments.curve import reserved_of
from tb_plugin.views.segments.out_of_memory import obstacles_frame, oom_moments_frame
from tb_plugin.views.segments.picture import picture_of
from tb_plugin.views.segments.summary import gap_sizes_of, oom_of, place_of, summary_of, usual_request
from tb_plugin.views.segments.tables import blocks_frame, pinning_frame, pools_frame, segments_frame

OWN = ("device", "at", "size")


class Segments:
    """The state of memory at any moment, so that fragmentation is seen."""

    id = "segments"
    title = "Segments"
    model = Snapshot
    traits = Traits("Memory", tables=("pools_at", "oom_moments"), whole="A snapshot has no phases.")
    scope: Scope = "profile"
    borrows = NO_BORROWED_NUMBERS

    def missing(self, snapshot: Snapshot) -> Missing | None:
        """Returns None: a snapshot always says what is held at its end."""
        return None

    def part_key(self, params: Params) -> tuple[object, ...]:
        """Depends on the device, the moment, and the size of the request that gaps are measured against."""
        return tuple(params.get(key) for key in OWN)

    def part(self, snapshot: Snapshot, params: Params) -> Part:
        """Returns map, figures and tables of one moment of one device. Raises BadRequest."""
        held = levels_of_device(snapshot, params)
        asked = moment_of(held, params)
        at = levels_of(held).peak() if asked is None else asked
        moment = moment_at(held, at)
        ooms = last_ooms(held)
        here = ran_out(held, at) if at >= 0 and held.action[at] == Action.OOM else None
        size = int_param(params, "size")
        request = usual_request(moment, here) if size is None else max(size, 0)
        by_bytes, by_count = gap_sizes_of(moment)
        payloads: dict[str, Payload] = {
            "answer": answer_of(moment, here),
            "moment": summary_of(moment),
            "place": place_of(held, at),
            "map": picture_of(moment, in_way_of(here, moment)),
            "gap_sizes": by_bytes,
            "gap_counts": by_count,
            "request": Figures("request", "Request", "", [METRICS.figure("request_bytes", request)]),
            "devices": Figures("devices", "Devices", "", [
                Figure(Metric(f"device.{each.name}", each.name, "count", "Events on the device."), each.count)
                for each in devices_of(snapshot)
            ]),
        }  # fmt: skip
        if here is not None:
            payloads["oom"] = oom_of(here)
        if held.count:
            payloads["reserved"] = reserved_of(held)
        frames = {
            "segments_at": segments_frame(moment),
            "pools_at": pools_frame(moment, request),
            "blocks_in_way": pinning_frame(moment),
            "blocks_at": blocks_frame(moment),
            "oom_moments": oom_moments_frame(held, ooms),
            "oom_obstacles": obstacles_frame(held, here or (ooms[-1] if ooms else None)),
        }
        layout = (*payloads, "pools_at", "blocks_in_way", "oom_moments", "oom_obstacles")
        return Part(CoverageInfo(complete=snapshot.report.complete), {}, frames, payloads, layout)

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        """Returns the page of one moment, or one of its tables."""
        return answer_view(self, parts[0], params)
