"""Steps wait for the next batch."""

from __future__ import annotations

from tb_plugin.analyses.rules.base import Rule, Scene, Seen
from tb_plugin.analyses.rules.metrics import METRICS
from tb_plugin.analyses.severity import severity_of
from tb_plugin.analyses.step_shares import active_rows
from tb_plugin.analyses.what_if import Change
from tb_plugin.analyses.wording import references_of
from tb_plugin.payloads import Link, Notice

DATALOADER_SHARE = 0.05


def _look(s: Scene) -> Seen | None:
    part, share = s.part("dataloader")
    if share <= DATALOADER_SHARE:
        return None
    rows = s.longest(active_rows(s.trace, "dataloader"))
    notice = Notice(
        rule="data_loading",
        severity=severity_of(share),
        text="Waiting for input takes {dataloader_mean_ns} of each {step_time_mean_ns} step.",
        todo=s.trace.recorder.todo("data_loading"),
        figures=[
            METRICS.figure("waiting_for_input", share),
            METRICS.figure("dataloader_mean_ns", part),
            METRICS.figure("step_time_mean_ns", s.step_ns),
        ],
        measure="waiting_for_input",
        threshold=DATALOADER_SHARE,
        evidence=Link("timeline", {}, "Show in timeline"),
        references=references_of(s.trace.recorder, "data_loading"),
        why="The next batch is asked for when the step needs it: until it is there, nothing is launched.",
        confidence="high",
    )
    return Seen(notice, Change(s.covered(rows)), events=rows)


RULE = Rule("data_loading", "Waiting for input", _look)
