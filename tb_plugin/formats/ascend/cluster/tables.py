"""Databases of job analyses, with old or new table names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tb_plugin.formats.ascend.cluster.numbers import rank_of, ranks_in, scaled_integer, step_of
from tb_plugin.formats.ascend.cluster.rows import Rows, kind_of_call
from tb_plugin.formats.ascend.cluster.texts import group_into, packets_into, step_into
from tb_plugin.formats.ascend.communication_titles import TOTAL, US
from tb_plugin.formats.ascend.database.cells import Columns, Form
from tb_plugin.formats.ascend.database.safe_open import Database

_STEPS = {
    "computing": "computing_ns", "communication_not_overlapped": "exposed_ns", "overlapped": "overlapped_ns",
    "communication": "communication_ns", "free": "free_ns", "stage": "stage_ns", "bubble": "bubble_ns",
    "communication_not_overlapped_and_exclude_receive": "exposed_without_receive_ns", "preparing": "preparing_ns",
}  # fmt: skip
_INDEXES = ("dp_index", "pp_index", "tp_index")
_TIMES, _BANDS = ("ClusterCommunicationTime", "ClusterCommAnalyzerTime"), (
    "ClusterCommunicationBandwidth", "ClusterCommAnalyzerBandwidth",
)  # fmt: skip
_LINKS = ("ClusterCommunicationMatrix", "ClusterCommAnalyzerMatrix")
_FORMER_NAMES = {"elapsed_time": "elapse_time", "band_type": "transport_type"}  # column -> former name
_CALL = ("step", "hccl_op_name", "group_name")


def tables_into(database: Database, rows: Rows) -> dict[str, str]:
    """Adds the rows of all known tables. Returns the job metadata in the database."""
    numbers = dict.fromkeys(_STEPS, Form.NUMBER) | dict.fromkeys(_INDEXES, Form.WHOLE)
    for row in _read(database, ("ClusterStepTraceTime",), ("step", "type", "index"), numbers):
        values = {key: scaled_integer(row[column], US, rows.log) for column, key in _STEPS.items()}
        values |= {key: row[key] for key in _INDEXES}
        step_into(rows, row["step"], row["type"], row["index"], values)
    _calls_into(database, rows)
    _bands_into(database, rows)
    sizes = dict.fromkeys(("src_rank", "dst_rank", "transit_size", "transit_time", "bandwidth"), Form.NUMBER)
    for row in _read(database, _LINKS, (*_CALL, "transport_type", "op_name"), sizes):
        ends = rank_of(row["src_rank"]), rank_of(row["dst_rank"])
        if ends[0] is None or ends[1] is None or row["hccl_op_name"] is None:
            rows.log.add("bad_row", "dropped", example=str(row["hccl_op_name"]))
            continue
        link = [row[key] for key in ("transport_type", "transit_size", "transit_time", "bandwidth", "op_name")]
        rows.link(step_of(row["step"]), row["hccl_op_name"], row["group_name"], (ends[0], ends[1]), link)
    texts = ("type", "rank_set", "group_name", "group_id", "pg_name")
    for row in _read(database, ("CommunicationGroupMapping",), texts, {}):
        kind, ranks = row["type"], ranks_in(row["rank_set"])
        if ranks and (row["group_name"] or kind == "p2p"):
            stage = kind == "p2p" and not row["group_name"]
            group_into(rows, ranks, "stage" if stage else kind, row["group_name"], row["pg_name"], row["group_id"])
    about = _read(database, ("ClusterBaseInfo",), ("key", "value"), {})
    return {str(row["key"]): str(row["value"]) for row in about if row["key"] and row["value"]}


def _calls_into(database: Database, rows: Rows) -> None:
    times = ("elapsed_time", "transit_time", "wait_time", "synchronization_time", "idle_time")
    forms = dict.fromkeys(("start_timestamp", *times), Form.NUMBER) | {"rank_id": Form.WHOLE}
    for row in _read(database, _TIMES, _CALL, forms):
        if (call := _call(row, rows)) is not None:
            rows.operation(call, [row[key] for key in ("start_timestamp", *times)])


def _bands_into(database: Database, rows: Rows) -> None:
    """Adds the data moved by each call.

    The table repeats this data for each packet size, so repeated rows are skipped.
    """
    numbers = ("transit_size", "transit_time", "large_packet_ratio", "package_size", "total_duration")
    forms = dict.fromkeys(numbers, Form.NUMBER) | {"rank_id": Form.WHOLE, "count": Form.WHOLE}
    seen_calls = set()
    for row in _read(database, _BANDS, (*_CALL, "band_type"), forms):
        call = _call(row, rows)
        if call is None or row["band_type"] is None:
            continue
        key = (*call.values(), row["band_type"])
        if key not in seen_calls:
            seen_calls.add(key)
            rows.band(call, row["band_type"], row["transit_size"], row["transit_time"], row["large_packet_ratio"])
        if row["count"]:
            packets_into(rows, call, row["band_type"], row["package_size"], row["count"], row["total_duration"])


def _call(row: Mapping[str, Any], rows: Rows) -> dict[str, Any] | None:
    """Returns the call of a row.

    Returns None for a row with totals, and for a row without a call. A row without a call is logged.
    """
    name, rank = row["hccl_op_name"], row["rank_id"]
    if name == TOTAL:
        return None
    if name is None or rank is None or rank < 0:
        rows.log.add("bad_row", "dropped", example=str(name))
        return None
    return {
        "rank": rank, "step": step_of(row["step"]), "kind": kind_of_call(name), "operation": name,
        "group": row["group_name"] or None,
    }  # fmt: skip


def _read(
    database: Database, names: tuple[str, ...], texts: tuple[str, ...], numbers: Mapping[str, Form]
) -> Iterator[dict[str, Any]]:
    name = next((name for name in names if database.has(name)), None)
    if name is None:
        return
    existing = {column.casefold() for column in database.columns(name)}
    forms_by_column = {
        _FORMER_NAMES[column] if column not in existing and _FORMER_NAMES.get(column) in existing else column: form
        for column, form in {**dict.fromkeys(texts, Form.TEXT), **numbers}.items()
    }
    read = database.read_as(name, forms_by_column)
    new = {old: column for column, old in _FORMER_NAMES.items()}
    lists = {
        _named(column, new, texts, numbers): _values(read, column, form) for column, form in forms_by_column.items()
    }
    for values in zip(*lists.values(), strict=True):
        yield dict(zip(lists, values, strict=True))


def _named(column: str, new: Mapping[str, str], texts: tuple[str, ...], numbers: Mapping[str, Form]) -> str:
    return column if column in texts or column in numbers else new[column]


def _values(read: Columns, column: str, form: Form) -> list[Any]:
    values: list[Any] = read.array(column, form).to_pylist()
    return values
