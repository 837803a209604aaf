"""Communication calls: times, data per link type, and packet sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.ascend.communication import schema
from tb_plugin.formats.ascend.communication.units import scaled_integers, texts_of
from tb_plugin.formats.ascend.csv_table import CsvTable, floats_of
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.job_tables import BANDS, OPERATIONS, PACKETS, job_table
from tb_plugin.model.trace.schema import MISSING

KEYS = ("rank", "step", "kind", "operation", "group")
Key = tuple[int | None, str | None, str | None, str, str | None]  # values of KEYS
Entry = tuple[Key, Mapping[str, Any]]  # a call, and its content in JSON
Rows = Mapping[str, pa.Array]  # texts by column title, and the columns KEYS

COLLECTIVE, P2P = "collective", "p2p"
# part of the bytes and times of another link type: HCCS, PCIE and SIO are included in SDMA
PART_OF = {"HCCS": "SDMA", "PCIE": "SDMA", "SIO": "SDMA"}
_P2P_CALLS = ("hcom_send", "hcom_receive", "hcom_batchsendrecv")
_P2P_NAMES = frozenset({"send", "receive", "batchsendrecv"})
_PLACE = re.compile(r"(?s)(?P<operation>.+)-(?P<place>top[0-9]*|middle|bottom[0-9]*|total)\Z")
_NO_DATA = (None, 0, "0", "0.0")  # size and time of an unused link type, which is the most frequent case
_MINIMUM = {"idle_ns": None}  # idle time is what remains, so it is negative if the other times overlap
_TIMES = (schema.START, *schema.CALL_TITLES.values())
_BANDS, _PACKETS = (
    (schema.TRANSPORT, schema.SIZE, schema.TRANSIT, schema.RATIO),
    (schema.TRANSPORT, schema.PACKET, schema.COUNT, schema.PACKETS_TIME),
)


def calls_in(entries: Iterable[Entry], log: IssueLog) -> dict[str, pa.Table]:
    """Returns the tables of calls, link types and packets."""
    times: list[tuple[Any, ...]] = []
    bands: list[tuple[Any, ...]] = []
    packets: list[tuple[Any, ...]] = []
    for key, about in entries:
        stated = about.get(schema.TIMES_OF_CALL)
        if not isinstance(stated, dict):
            _skipped("bad_call", key[3], log)
            continue
        times.append((*key, *(stated.get(title) for title in _TIMES)))
        links = about.get(schema.MOVED_BY_CALL)
        for band, moved in links.items() if isinstance(links, dict) else ():
            if not isinstance(moved, dict):
                _skipped("bad_band", band, log)
                continue
            if moved.get(schema.SIZE) in _NO_DATA and moved.get(schema.TRANSIT) in _NO_DATA:
                continue
            bands.append((*key, band, moved.get(schema.SIZE), moved.get(schema.TRANSIT), moved.get(schema.RATIO)))
            spread = moved.get(schema.PACKETS_OF_LINK)
            for size, counted in spread.items() if isinstance(spread, dict) else ():
                if isinstance(counted, list) and len(counted) == 2:
                    packets.append((*key, band, size, *counted))
                else:
                    _skipped("bad_packets", size, log)
    return {
        OPERATIONS: _operations(_rows(times, _TIMES, log), log),
        BANDS: _link_types(_rows(bands, _BANDS, log), log),
        PACKETS: _packet_sizes(_rows(packets, _PACKETS, log), log),
    }


def calls_stored(tables: Mapping[str, CsvTable], rank: int | None, log: IssueLog) -> dict[str, pa.Table]:
    """Returns the tables of calls, link types and packets in a database. ``rank``: rank of the profile."""
    made = {}
    if (table := tables.get(OPERATIONS)) is not None:
        made[OPERATIONS] = _operations(_stored(table, _TIMES, rank, log), log)
    if (table := tables.get(BANDS)) is not None:
        # Each row has one packet size, so it repeats the data of the call.
        rows = _stored(table, dict.fromkeys((*_BANDS, *_PACKETS)), rank, log)
        made[PACKETS] = _packet_sizes(rows, log)
        _, first = np.unique(_codes([rows[key] for key in (*KEYS, schema.TRANSPORT)]), return_index=True)
        made[BANDS] = _link_types({key: column.take(np.sort(first)) for key, column in rows.items()}, log)
    return made


def profile_entries(document: Mapping[str, Any], rank: int | None, log: IssueLog) -> Iterator[Entry]:
    """Yields the entries of a profile's file, except totals. Logs entries of unexpected type."""
    for step, classes in document.items():
        if not isinstance(classes, dict):
            _skipped("bad_class", step, log)
            continue
        for kind, calls in classes.items():
            if kind not in (COLLECTIVE, P2P) or not isinstance(calls, dict):
                _skipped("bad_class", kind, log)
                continue
            for name, about in calls.items():
                if name.startswith(schema.TOTAL):
                    continue
                operation, at, group = name.rpartition("@")
                if isinstance(about, dict):
                    yield (rank, step_label(step), kind, operation if at else name, group if at else None), about
                else:
                    _skipped("bad_call", name, log)


def stored_keys(table: CsvTable, rank: int | None) -> list[Key]:
    """Returns the key of each row. Databases of one profile contain no rank, and those of jobs no kind."""
    ranks = table.integers(schema.RANK).tolist() if table.has(schema.RANK) else [rank] * table.rows
    steps, kinds, names, groups = (
        table.texts(title).to_pylist() for title in (schema.STEP, schema.KIND, schema.OPERATION, schema.GROUP)
    )
    return [
        (
            None if number == MISSING else number,
            None if step is None else step_label(step),
            kind if table.has(schema.KIND) or not name else kind_of(name),
            name or "",
            group,
        )
        for number, step, kind, name, group in zip(ranks, steps, kinds, names, groups, strict=True)
    ]


def step_label(text: str) -> str | None:
    """Returns the label in a step name such as ``step13``, or None."""
    return text.strip().removeprefix("step") or None


def kind_of(name: str) -> str | None:
    """Returns "p2p" for the name of a send or receive, None for a total over all calls, otherwise "collective"."""
    operation, _ = split_name(name)
    if operation is None:
        return None
    lower = operation.lower()
    return P2P if lower.startswith(_P2P_CALLS) or lower in _P2P_NAMES else COLLECTIVE


def split_name(name: str) -> tuple[str | None, str | None]:
    """Splits a name such as "allreduce-top1" into operation and place. A total over all calls has no operation."""
    if name == schema.TOTAL:
        return None, "total"
    match = _PLACE.match(name)
    return (match["operation"], match["place"]) if match else (name, None)


_TEXTS = {
    "bad_class": "entries that do not describe a call were skipped",
    "bad_call": "calls without times were skipped",
    "bad_band": "link types without a data size were skipped",
    "bad_packets": "packet sizes without both a count and a time were skipped",
}


def _skipped(code: str, name: str, log: IssueLog) -> None:
    log.add(code, "note", text=_TEXTS[code], example=name)


def _rows(rows: list[tuple[Any, ...]], titles: Sequence[str], log: IssueLog) -> Rows:
    names = (*KEYS[1:], *titles)
    ranks, *columns = zip(*rows, strict=True) if rows else ((),) * (len(names) + 1)
    return {
        "rank": pa.array(ranks, pa.int64()),
        **{name: texts_of(column, log) for name, column in zip(names, columns, strict=True)},
    }


def _stored(table: CsvTable, titles: Iterable[str], rank: int | None, log: IssueLog) -> Rows:
    """Returns the rows that describe one call. Rows without a call or rank are logged."""
    keys = stored_keys(table, rank)
    is_call = [bool(key[3]) and (key[0] is not None or not table.has(schema.RANK)) for key in keys]
    if not all(is_call):
        log.add("bad_row", "dropped", count=is_call.count(False))
    kept = [place for place, key in enumerate(keys) if is_call[place] and key[3] != schema.TOTAL]
    ranks, *others = zip(*(keys[place] for place in kept), strict=True) if kept else ((),) * len(KEYS)
    return {
        "rank": pa.array(ranks, pa.int64()),
        **{name: pa.array(column, pa.string()) for name, column in zip(KEYS[1:], others, strict=True)},
        **{title: table.texts(title).take(pa.array(kept, pa.int64())) for title in titles},
    }


def _operations(rows: Rows, log: IssueLog) -> pa.Table:
    times = {
        key: scaled_integers(rows[title], schema.MS, log, least=_MINIMUM.get(key, 0))
        for key, title in schema.CALL_TITLES.items()
    }
    return job_table(
        OPERATIONS, {**_call(rows), "start_ns": scaled_integers(rows[schema.START], schema.US, log), **times}
    )


def _link_types(rows: Rows, log: IssueLog) -> pa.Table:
    """Returns one row per call and link type. ``part_of``: larger link type of the call that includes this one."""
    band = rows[schema.TRANSPORT]
    code = _codes([rows[key] for key in KEYS])
    wholes = np.unique(code[np.asarray(pc.fill_null(pc.is_in(band, pa.array(set(PART_OF.values()))), False))])
    part_of = pa.array(list(PART_OF.values())).take(pc.index_in(band, pa.array(list(PART_OF))))
    size, time = (
        scaled_integers(rows[schema.SIZE], schema.MB, log),
        scaled_integers(rows[schema.TRANSIT], schema.MS, log),
    )
    columns = {
        "band": band,
        "part_of": pc.if_else(pa.array(np.isin(code, wholes)), part_of, pa.scalar(None, pa.string())),
        "bytes": size,
        "transit_ns": time,
        "large_ratio": floats_of(rows[schema.RATIO], log),
    }
    return job_table(BANDS, {**_call(rows), **columns}).filter(pc.or_(_is_some(size), _is_some(time)))


def _packet_sizes(rows: Rows, log: IssueLog) -> pa.Table:
    columns = {
        "band": rows[schema.TRANSPORT],
        "packet_bytes": scaled_integers(rows[schema.PACKET], schema.MB, log),
        "count": scaled_integers(rows[schema.COUNT], 0, log),
        "transit_ns": scaled_integers(rows[schema.PACKETS_TIME], schema.MS, log),
    }
    return job_table(PACKETS, {**_call(rows), **columns}).filter(_is_some(columns["count"]))


def _call(rows: Rows) -> dict[str, pa.Array]:
    return {key: rows[key] for key in KEYS}


def _codes(columns: Sequence[pa.Array]) -> Any:
    """Returns an integer per row. Rows with equal values have equal integers."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = column.dictionary_encode()
        place = np.asarray(pc.fill_null(encoded.indices, len(encoded.dictionary))).astype(np.int64)
        code = np.unique(code * (len(encoded.dictionary) + 1) + place, return_inverse=True)[1].astype(np.int64)
    return code


def _is_some(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.greater(values, 0), False)
