"""Tables and sentences of simulated savings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pyarrow as pa

from tb_plugin.analysis.base import Frame, Params
from tb_plugin.analysis.metrics import CHOSEN, SHARED, define
from tb_plugin.analysis.simulate.scaled import Scale, parsed_scale
from tb_plugin.analysis.work_answers import answer
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Int64
from tb_plugin.payloads import Notice, Payload, Scalar

METRICS = SHARED.adding(
    define(
        CHOSEN,
        "ns",
        {
            "whatif_step_ns": ("Step time", "Mean step duration."),
            "saved_ns": ("Saved", "Simulated saving per step."),
            "saved_low_ns": ("Low", "Lower bound; negative: longer steps."),
            "saved_high_ns": ("High", "Upper bound."),
            "new_step_ns": ("New step time", "Step time minus saving."),
        },
    ),
    define("", "count", {"whatif_changes": ("Changes", "Selected changes.")}),
    define(CHOSEN, "ratio", {"saved_share": ("Saved share", "Saving divided by step time.")}),
    define("", "text", {"simulated_change": ("Change", "Work and its new speed.")}),
    define("", "code", {"change": ("Command", "Argument of `--scale`.")}),
)
MAX_CHOSEN = 20
ALL, ALL_TITLE = "all together", "All changes together"
# If the host waits for less than this share of the new step, the host limits the step.
MAX_WAIT_SHARE = 0.05


class Titled(msgspec.Struct, frozen=True, eq=False):
    """The name of the work of a change, its title, and its argument on the command line."""

    work: str
    title: str
    text: str


def chosen_scales(params: Params) -> list[Scale]:
    """Returns the changes of a request. Raises BadRequest for texts that are no changes, and for too many changes."""
    chosen = [parsed_scale(text) for text in params.values("scale")]
    if len(chosen) > MAX_CHOSEN:
        raise BadRequest(f"At most {MAX_CHOSEN} changes are computed.", "scale", "Ask for fewer changes.")
    if len({(scale.kind, scale.name) for scale in chosen}) < len(chosen):
        raise BadRequest("Two changes have the same work.", "scale", "Give each work one factor.")
    return chosen


def saving_frame(
    name: str, changes: Sequence[Titled], saved_ns: Int64, step_ns: int, bounds: Mapping[str, Int64]
) -> Frame:
    columns = {
        "simulated_change": pa.array([each.title for each in changes], pa.large_string()),
        "saved_ns": pa.array(saved_ns),
        "saved_share": pa.array(saved_ns / max(step_ns, 1)),
        "new_step_ns": pa.array(step_ns - saved_ns),
        **{key: pa.array(values) for key, values in bounds.items()},
        "change": pa.array([each.text for each in changes], pa.large_string()),
    }
    return Frame(name, "Changes", METRICS.columns(*columns), pa.table(columns), ("change",), "simulated_change")


def saving_answer(
    changes: Sequence[Titled],
    saved_ns: Int64,
    chosen: int,
    step_ns: int,
    limits: Sequence[str] = (),
    note: str = "",
    notices: Sequence[Notice] = (),
) -> dict[str, Payload]:
    """Returns a sentence about all chosen changes, or about the change that saves most; empty without a change.

    ``limits`` names what limits the step after each change ("" = unknown). ``note`` is a last sentence, and
    ``notices`` follow.
    """
    at = chosen - 1 if chosen else 0
    if at >= len(changes):
        return {}
    saved = int(saved_ns[at])
    text = (
        "With {whatif_changes} changes, a step takes {new_step_ns} instead of {whatif_step_ns}."
        if chosen > 1
        else "With this change, a step takes {new_step_ns} instead of {whatif_step_ns}."
        if chosen
        else "Removing {simulated_change} saves most: {saved_ns} per step ({saved_share})."
    )
    if chosen and not saved:
        text = "The changes save nothing." if chosen > 1 else "This change saves nothing."
    if limits and limits[at]:
        text += f" Then the {limits[at]} limits the step."
    if note:
        text += f" {note}"
    values: dict[str, Scalar] = {
        "simulated_change": changes[at].work,
        "saved_ns": saved,
        "saved_share": saved / max(step_ns, 1),
        "new_step_ns": step_ns - saved,
        "whatif_step_ns": step_ns,
        "whatif_changes": max(chosen - 1, 1),
    }
    named = {key: value for key, value in values.items() if f"{{{key}}}" in text}
    return {"answer": answer("whatif_answer", text, METRICS.figures(named), *notices)}
