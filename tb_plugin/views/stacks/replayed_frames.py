"""Frames of replayed work, from the launch down into the capture."""

from __future__ import annotations

import msgspec
import numpy as np

from tb_plugin.analysis.code_owner import package_of
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.graphs.scope_calls import Bearers, replayed_calls
from tb_plugin.analysis.stack_frames import FRAMES, labels_of
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.trace.graph_capture import Scopes
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit
from tb_plugin.views.stacks.options import Choice

# The frame between a graph launch and the captured frames.
REPLAY = "(graph replay)"
# Placeholder label, replaced when all labels are known.
IS_REPLAY = -2


class ReplayedFrames(msgspec.Struct, frozen=True, eq=False):
    """Frames that follow the frames of a trace. ``parent`` and ``owner`` are indices into both."""

    parent: Int32
    kind: Int64
    label: Int64
    owner: Int32
    """Innermost frame of each piece of device work; -1 = none."""


def replayed_frames(
    trace: TraceTable, work: Int64, launcher: Int32, row: Int64, parent: Int32, choice: Choice
) -> ReplayedFrames:
    """Returns the frames of replayed work. ``launcher`` is the frame (in ``row``) around each launch."""
    origins = origins_of(trace)
    scopes = origins.scopes
    if not len(scopes):
        none = np.empty(0, np.int64)
        return ReplayedFrames(none.astype(np.int32), none, none, launcher)
    label = labels_of(trace).of[trace.name[row]].astype(np.int64)
    bears = of_kind(scopes.kind, *FRAMES[choice.of])
    if choice.fold == "framework":
        bears &= ~_folded(trace, scopes, bears)
    bearers = Bearers(parent, label, launcher)
    labels = labels_of(trace).of[scopes.name].astype(np.int64)
    found = replayed_calls(trace, work, origins.at(work), bearers, bears, labels, counted=False)
    # One replay frame per launching frame, before its captured frames.
    count = len(parent)
    above = found.parent
    roots = above < count
    borne = np.unique(above[roots])

    def moved(at: Int32) -> Int32:
        return np.where(at < count, at, at + len(borne)).astype(np.int32)

    hung = np.where(roots, count + np.searchsorted(borne, above), moved(above))
    return ReplayedFrames(
        parent=np.concatenate((borne, hung)).astype(np.int32),
        kind=np.concatenate((np.full(len(borne), EventKind.UNKNOWN), scopes.kind[found.scope])).astype(np.int64),
        label=np.concatenate((np.full(len(borne), IS_REPLAY, np.int64), labels[found.scope])),
        owner=np.where(found.owner == MISSING, launcher, moved(found.owner)).astype(np.int32),
    )


def _folded(trace: TraceTable, scopes: Scopes, bears: Bool) -> Bool:
    framework = trace.strings.where(lambda text: package_of(text)[1])[scopes.name] & (scopes.kind == EventKind.PYTHON)
    inside = np.append(framework | (scopes.kind == EventKind.MODULE), False)
    nearest = np.append(
        inherit(np.where(bears, np.arange(len(bears)), MISSING).astype(np.int32), scopes.parent), MISSING
    )
    found: Bool = framework & inside[nearest[scopes.parent]]
    return found
