"""Queries that reproduce tables of views, to check and change them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params

_SELF = "count(*) as calls, sum(device_self_ns) as device_self_ns, sum(host_self_ns) as host_self_ns"
_OPERATORS = f"""{_SELF},
  sum(device_total_ns) filter (is_outermost) as device_total_ns,
  sum(host_total_ns) filter (is_outermost) as host_total_ns"""
_DURATIONS = """count(*) as calls, sum(dur_ns) as total_ns, avg(dur_ns) as mean_ns,
  min(dur_ns) as min_ns, max(dur_ns) as max_ns"""
_CALLS = """count(*) as calls, sum(device_idle_ns) as device_idle_ns,
  sum(self_ns) as host_self_ns, max(dur_ns) as max_ns, sum(launched) as launched, sum(bytes) as bytes"""

# (columns of a group, sums, table, first column of the order) by table of a view.
STATEMENTS: Mapping[str, tuple[str, str, str, str]] = {
    "operators": ("name", _OPERATORS, "operators", "device_self_ns desc, host_self_ns"),
    "operators_by_shape": ("name, input_shape", _SELF, "operators", "device_self_ns desc, host_self_ns"),
    "kernels": ("name, class", _DURATIONS, "kernels", "total_ns"),
    "kernels_by_launch": (
        "name, operator, grid, block, registers, shared_memory",
        _DURATIONS,
        "kernels",
        "total_ns",
    ),
    "copies": ("name, kind", f"{_DURATIONS}, sum(bytes) as bytes", "copies", "total_ns"),
    "runtime_calls": ("name", _CALLS, "runtime_calls", "device_idle_ns desc, host_self_ns"),
    "runtime_calls_by_caller": (
        "name, operator, caller_phase, caller_frame",
        _CALLS,
        "runtime_calls",
        "device_idle_ns desc, host_self_ns",
    ),
}
# Columns of the table by column of the view, where their names differ.
_NAMES = {
    "input_shape": "input_shapes as input_shape",
    "shared_memory": "shared_memory_bytes as shared_memory",
    "caller_phase": "phase as caller_phase",
    "caller_frame": "code_line as caller_frame",
}


def with_sql(frames: Mapping[str, Frame], params: Params) -> dict[str, Frame]:
    """Returns the tables of a view with the queries that reproduce them; without one in a phase."""
    if params.phase:
        return dict(frames)
    return {
        name: replace(frame, sql=_statement(*STATEMENTS[name], params)) if name in STATEMENTS else frame
        for name, frame in frames.items()
    }


def _statement(keys: str, sums: str, table: str, order: str, params: Params) -> str:
    columns = ", ".join(_NAMES.get(key, key) for key in keys.split(", "))
    labels = ", ".join("'" + label.replace("'", "''") + "'" for label in params.steps or ())
    where = f"\nwhere step in ({labels})" if params.steps is not None else ""
    return f"select {columns}, {sums}\nfrom {table}{where}\ngroup by all\norder by {order} desc"
