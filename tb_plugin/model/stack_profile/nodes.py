"""Stacks of the nodes of graphs, for a trace that replays them."""

from __future__ import annotations

from tb_plugin.model.stack_profile.table import StackProfile
from tb_plugin.model.trace.graph_capture import Captured, NodeStacks, named_scopes
from tb_plugin.model.trace.schema import EventKind


def captured_by_node(profile: StackProfile) -> Captured:
    """Returns the calls around the launch of each node; ids count into the names of the profile."""
    places = profile.places
    scopes = named_scopes(EventKind.PYTHON, places.label, places.parent)
    return Captured(stacks=NodeStacks(profile.node, profile.node_place, scopes) if len(profile.node) else NodeStacks())
