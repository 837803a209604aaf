"""Queries that reproduce tables of views, to check and change them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tb_plugin.analysis.base import Frame, Params
from tb_plugin.analysis.step_shares import CATEGORIES
from tb_plugin.model.trace.schema import NO_OPERATOR

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
    "copies": ("name, kind, direction", f"{_DURATIONS}, sum(bytes) as bytes", "copies", "total_ns"),
    "runtime_calls": ("name", _CALLS, "runtime_calls", "device_idle_ns desc, host_self_ns"),
    "runtime_calls_by_caller": (
        "name, operator, caller_phase, caller_frame",
        _CALLS,
        "runtime_calls",
        "device_idle_ns desc, host_self_ns",
    ),
}
_STEPS = f"""select step, {", ".join(f"{part}_ns" for part in CATEGORIES)}, dur_ns as total_ns
from steps{{where}}
order by start_ns"""
_ROOFLINE = """select name, input_shapes as input_shape, number_format, count(flops) as work_calls,
  sum(work_kernel_ns) as work_kernel_ns, sum(flops) / 1e9 as gflops, sum(moved_bytes) as moved_bytes
from operators{where}
group by all
having count(flops) > 0
order by work_kernel_ns desc"""
_MODULES = """select name as module, count(*) as calls,
  sum(device_total_ns) filter (is_outermost) as device_total_ns, sum(device_self_ns) as device_self_ns,
  sum(backward_device_total_ns) filter (is_outermost) as backward_device_total_ns,
  sum(backward_device_self_ns) as backward_device_self_ns,
  sum(recomputed_device_ns) filter (is_outermost) as recomputed_device_ns,
  sum(dur_ns) filter (is_outermost) as host_total_ns, sum(host_self_ns) as host_self_ns,
  sum(backward_host_total_ns) filter (is_outermost) as backward_host_total_ns, sum(operators) as operators
from modules
group by name
order by device_total_ns desc, host_total_ns desc"""
_MEMORY = f"""select coalesce(outermost_operator, '{NO_OPERATOR}') as name, device,
  coalesce(any_value(calls), 0) as outer_calls,
  sum(bytes) as size_increase_bytes, count(*) filter (bytes > 0) as allocation_count,
  coalesce(sum(bytes) filter (bytes > 0), 0) as allocation_bytes
from memory_events left join (
  select name, count(*) as calls from operators where parent is null group by name
) outermost on outermost.name = outermost_operator
where bytes != 0
group by outermost_operator, device, allocator
order by size_increase_bytes desc, allocation_bytes desc"""
# Queries that group no rows, by table of a view.
_OTHERS: Mapping[str, str] = {"steps": _STEPS, "roofline": _ROOFLINE}
# A call may span steps, so these queries reproduce tables of all steps only.
_OF_ALL_STEPS: Mapping[str, str] = {"modules": _MODULES, "memory_operators_outermost": _MEMORY}
TABLES = STATEMENTS.keys() | _OTHERS.keys() | _OF_ALL_STEPS.keys()
# Columns of the table by column of the view, where their names differ.
_NAMES = {
    "input_shape": "input_shapes as input_shape",
    "shared_memory": "shared_memory_bytes as shared_memory",
    "caller_phase": "phase as caller_phase",
    "caller_frame": "code_line as caller_frame",
}


def with_sql(frames: Mapping[str, Frame], params: Params) -> dict[str, Frame]:
    """Returns the tables of a view with the queries that reproduce them; without one in a phase."""
    return {name: replace(frame, sql=_of(name, frame, params)) for name, frame in frames.items()}


def _of(name: str, frame: Frame, params: Params) -> str:
    if params.phase or (name in _OF_ALL_STEPS and "replayed_calls" in frame.data.column_names):
        return ""
    if name in _OF_ALL_STEPS:
        return _OF_ALL_STEPS[name] if params.steps is None else ""
    if name in _OTHERS:
        return _OTHERS[name].format(where=_where(params))
    return _statement(*STATEMENTS[name], params) if name in STATEMENTS else ""


def _where(params: Params) -> str:
    labels = ", ".join("'" + label.replace("'", "''") + "'" for label in params.steps or ())
    return f"\nwhere step in ({labels})" if params.steps is not None else ""


def _statement(keys: str, sums: str, table: str, order: str, params: Params) -> str:
    columns = ", ".join(_NAMES.get(key, key) for key in keys.split(", "))
    return f"select {columns}, {sums}\nfrom {table}{_where(params)}\ngroup by all\norder by {order} desc"
