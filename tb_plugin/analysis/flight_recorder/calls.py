"""Tables of one rank's calls and process groups."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.base import Frame
from tb_plugin.analysis.code_owner import package_of
from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.flight_recorder.metrics import METRICS
from tb_plugin.lib.groupby import Groups, group
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.flight_recorder import Flight
from tb_plugin.payloads import Column, Sort

_PEERS = re.compile(r"(\d+|\?)\s*(->|<-)\s*(\d+|\?)\s*$")
# torch.distributed's description of the group of all ranks
_DEFAULT = "default_pg"
_NO_DESCRIPTION = {"", "undefined", None}
_BY_STATE = "state"
_HIDDEN = ("record_number", "p2p_number", "source_rank", "destination_rank", "call_started_ns",
           "call_completed_ns", "call_timeout_ms", "call_output_sizes", "recorded_stack", "thread", "backend")  # fmt: skip


@cached_by_argument
def calls_of(flight: Flight) -> pa.Table:
    """Returns one row per call, in the order of the records. The column names are metric keys."""
    records = flight.records
    origin = flight.origin_ns
    name = _dictionary(records["name"])
    operation = [text.rpartition(":")[2] for text in name.dictionary.to_pylist()]
    peers = [_peers(text) for text in operation]
    inputs, outputs = (_texts(records[f"{side}_types"]) for side in ("input", "output"))
    both = pc.binary_join_element_wise(inputs, outputs, pa.scalar(" to ", pa.large_string()))
    same = pc.fill_null(pc.equal(inputs, outputs), False)
    empty = pc.equal(pc.fill_null(outputs, ""), "")
    stack = _dictionary(records["stack"])
    lines = [line_of(text) for text in stack.dictionary.to_pylist()]
    is_p2p = records["is_p2p"]
    data = {
        "record_number": records["record"],
        "group": _texts(records["group"]),
        "group_description": _texts(records["group_description"]),
        "sequence": pc.if_else(is_p2p, None, records["sequence"]),
        "p2p_number": pc.if_else(is_p2p, records["p2p_sequence"], None),
        "collective": _mapped(name, [collective_name(text) for text in operation]),
        "backend": _mapped(name, [text.rpartition(":")[0] or None for text in name.dictionary.to_pylist()]),
        "source_rank": _mapped(name, [pair[0] for pair in peers], pa.int64()),
        "destination_rank": _mapped(name, [pair[1] for pair in peers], pa.int64()),
        "call_input_sizes": _texts(records["input_sizes"]),
        "call_output_sizes": _texts(records["output_sizes"]),
        "call_types": pc.if_else(pc.or_(same, empty), inputs, both),
        "call_state": _texts(records["state"]),
        "call_finished": records["finished"],
        "call_known_by": _known_by(records),
        "call_created_ns": pc.subtract(records["created_ns"], origin),
        "call_started_ns": pc.subtract(records["started_ns"], origin),
        "call_completed_ns": pc.subtract(records["completed_ns"], origin),
        "call_duration_ns": records["duration_ns"],
        "call_timeout_ms": records["timeout_ms"],
        "thread": _texts(records["thread"]),
        "call_line": _mapped(stack, lines),
        "recorded_stack": _texts(records["stack"]),
    }
    return pa.table(data).combine_chunks()


def calls_frame(flight: Flight) -> Frame:
    """Returns the table of all calls, last call first, because a hanging rank hangs in its last call."""
    data = calls_of(flight)
    order = np.argsort(-data["record_number"].to_numpy(), kind="stable")
    all_by_state = pc.all(pc.is_in(data["call_known_by"], pa.array([_BY_STATE, None], pa.large_string()))).as_py()
    hidden = (*_HIDDEN, *redundant_group_column(data), *(("call_known_by",) if all_by_state else ()))
    return Frame(
        "recorded_calls",
        "Calls",
        columns_of(data, hidden),
        data.take(pa.array(order)),
        ("record_number",),
        "collective",
        Sort("record_number", True),
    )


def groups_frame(flight: Flight) -> Frame:
    """Returns the table of process groups, including the rank's progress in each group."""
    data, groups = calls_of(flight), _groups(flight)
    sequence = pc.fill_null(data["sequence"], -1).to_numpy()
    done = pc.fill_null(data["call_finished"], False).to_numpy()
    known = sequence >= 0
    low = groups.min(np.where(known, sequence, np.iinfo(np.int64).max))
    high, finished = (groups.max(np.where(flags, sequence, -1)) for flags in (known, known & done))
    first = pa.array(groups.first)
    ranks = list(members_of(flight).values())
    columns = {
        "group": data["group"].take(first),
        "group_description": data["group_description"].take(first),
        "group_ranks": pa.array([ranks_text(each) if each else None for each in ranks], pa.large_string()),
        "recorded_calls_count": pa.array(groups.count()),
        "unfinished_calls": pa.array(groups.sum((~done).astype(np.int64))),
        "first_sequence": pa.array(np.where(high >= 0, low, -1), mask=high < 0),
        "last_sequence": pa.array(high, mask=high < 0),
        "finished_sequence": pa.array(finished, mask=finished < 0),
    }
    table = pa.table(columns)
    order = np.argsort(-groups.count(), kind="stable")
    return Frame(
        "group_progress",
        "Process groups",
        columns_of(table),
        table.take(pa.array(order)),
        ("group", "group_description"),
        "group",
        Sort("recorded_calls_count", True),
    )


def _known_by(records: pa.Table) -> pa.Array:
    """Returns, for each call, the reason why it counts as finished; null if the call is unfinished."""
    by_state = pc.fill_null(pc.equal(_texts(records["state"]), "completed"), False)
    texts = pc.if_else(records["retired"], "removed by the recorder", "later call completed").cast(pa.large_string())
    return pc.if_else(records["finished"], pc.if_else(by_state, _BY_STATE, texts), None)


def members_of(flight: Flight) -> dict[tuple[str | None, str | None], tuple[int, ...]]:
    """Returns the ranks of each process group that has calls, keyed by (name, description); empty if unknown."""
    first = pa.array(_groups(flight).first)
    columns = (calls_of(flight)[key].take(first).to_pylist() for key in ("group", "group_description"))
    by_name = {each.name: each.ranks for each in flight.groups}
    by_description = {each.description: each.ranks for each in flight.groups if each.description}
    found: dict[tuple[str | None, str | None], tuple[int, ...]] = {}
    for name, description in zip(*columns, strict=True):
        ranks = by_name.get(name or "") or by_description.get(description or "")
        if not ranks and description == _DEFAULT and len(flight.groups) == 1:
            ranks = flight.groups[0].ranks  # some backends give the first group no name
        found[name, description] = ranks or ()
    return found


@cached_by_argument
def _groups(flight: Flight) -> Groups:
    data = calls_of(flight)
    encoded = (data[key].combine_chunks().dictionary_encode() for key in ("group", "group_description"))
    return group(*(pc.fill_null(key.indices, -1).to_numpy().astype(np.int64) for key in encoded))


def ranks_text(ranks: tuple[int, ...], most: int = 64) -> str:
    """Formats ranks as text with ranges, such as ``0-3, 6``. The text contains at most ``most`` ranges."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in runs[:most]]
    return ", ".join(texts) + (", ..." if len(runs) > most else "")


def redundant_group_column(calls: pa.Table) -> tuple[str, ...]:
    """Returns ``("group",)`` if group descriptions identify all groups, else ``()``."""
    names, descriptions = (calls[key].combine_chunks().dictionary_encode() for key in ("group", "group_description"))
    pairs = group(*(pc.fill_null(key.indices, -1).to_numpy().astype(np.int64) for key in (names, descriptions)))
    is_unique = (
        len(pairs) == len(descriptions.dictionary) and not set(descriptions.dictionary.to_pylist()) & _NO_DESCRIPTION
    )
    return ("group",) if is_unique and len(pairs) else ()


def columns_of(data: pa.Table, hidden: Sequence[str] = ()) -> list[Column]:
    """Returns the columns of a table of calls, groups or ranks. Columns that contain no values are hidden."""
    empty = [key for key in data.column_names if len(data) and data[key].null_count == len(data)]
    return METRICS.columns(*data.column_names, hidden=(*hidden, *empty))


def group_text(call: Mapping[str, object]) -> str:
    """Returns the description of a call's process group. If the group has no description, returns its name."""
    description = call["group_description"]
    return str(call["group"] or "") if description in _NO_DESCRIPTION else str(description)


def line_of(stack: str) -> str | None:
    """Returns the innermost stack frame in user code, else the innermost frame, None if the stack is empty."""
    frames = stack.split("\n") if stack else []
    own = (frame for frame in frames if not package_of(frame)[1] and not frame.startswith("<"))
    return next(own, frames[0] if frames else None)


def _peers(operation: str) -> tuple[int | None, int | None]:
    """Parses the ranks in ``send 1->2``, ``recv 3<-0`` and ``recv 3<-?``. Returns the sending rank and the receiving rank."""
    match = _PEERS.search(operation)
    if match is None:
        return None, None
    left, right = (int(side) if side.isdigit() and len(side) < 10 else None for side in (match[1], match[3]))
    return (left, right) if match[2] == "->" else (right, left)


def _dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _texts(column: pa.ChunkedArray) -> pa.Array:
    return _dictionary(column).cast(pa.large_string())


def _mapped(
    column: pa.DictionaryArray, values: Sequence[str | int | None], kind: pa.DataType | None = None
) -> pa.Array:
    return pa.array(values, kind or pa.large_string()).take(column.indices)
