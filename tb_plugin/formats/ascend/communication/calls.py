"""Communication calls: times, data per link type, and packet sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.ascend.communication.units import floats_of, scaled_integers, texts_of
from tb_plugin.formats.ascend.communication_titles import (
    CALL_TITLES,
    MB,
    MOVED_BY_CALL,
    MS,
    PACKETS_OF_LINK,
    PART_OF,
    RATIO,
    SIZE,
    START,
    TIMES_OF_CALL,
    TOTAL,
    TRANSIT,
    US,
)
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.job_tables import BANDS, OPERATIONS, PACKETS, job_table

CLASSES = ("collective", "p2p")
_STEP = "step"
_NO_DATA = (None, "0", "0.0")  # size and time of an unused link type, which is the most frequent case
_KEYS = ("step", "kind", "operation", "group")
_MINIMUM = {"idle_ns": None}  # idle time is what remains, so it is negative if the other times overlap

Texts = Mapping[str, pa.Array]


def operations_of(keys: Texts, texts: Texts, rank: int | None, log: IssueLog) -> pa.Table:
    """Returns the table of calls.

    ``keys`` identify the call of each row. ``texts`` contains the times of the call by column title.
    """
    times = {
        key: scaled_integers(texts[title], MS, log, least=_MINIMUM.get(key, 0)) for key, title in CALL_TITLES.items()
    }
    start = scaled_integers(texts[START], US, log)
    return job_table(OPERATIONS, {**_call(keys, rank), "start_ns": start, **times})


def bands_of(keys: Texts, band: pa.Array, texts: Texts, rank: int | None, log: IssueLog) -> pa.Table:
    """Returns a table with one row per call and link type, for link types that the call used.

    The column ``part_of`` contains the larger link type that includes this one, or null if the call did not use it.
    """
    size, time = scaled_integers(texts[SIZE], MB, log), scaled_integers(texts[TRANSIT], MS, log)
    within = pc.index_in(band, pa.array(list(PART_OF)))
    within = pa.array(list(PART_OF.values())).take(within)
    code = _codes(keys)
    wholes = np.unique(code[np.isin(np.asarray(band.to_pylist(), dtype=object), [*set(PART_OF.values())])])
    within = pc.if_else(pa.array(np.isin(code, wholes)), within, pa.scalar(None, pa.string()))
    columns = {
        "band": band,
        "part_of": within,
        "bytes": size,
        "transit_ns": time,
        "large_ratio": floats_of(texts[RATIO], log),
    }
    made = job_table(BANDS, {**_call(keys, rank), **columns})
    return made.filter(pc.or_(_is_some(size), _is_some(time)))


def packets_of(
    keys: Texts, band: pa.Array, texts: tuple[pa.Array, pa.Array, pa.Array], rank: int | None, log: IssueLog
) -> pa.Table:
    """Returns the table of packets. ``texts`` contains sizes in MB, counts, and times in ms."""
    size, count, time = (
        scaled_integers(texts[0], MB, log),
        scaled_integers(texts[1], 0, log),
        scaled_integers(texts[2], MS, log),
    )
    made = job_table(
        PACKETS, {**_call(keys, rank), "band": band, "packet_bytes": size, "count": count, "transit_ns": time}
    )
    return made.filter(_is_some(count))


def calls_in(document: Mapping[str, Any], rank: int | None, log: IssueLog) -> dict[str, pa.Table]:
    """Returns the tables of calls, link types and packets in ``communication.json``."""
    keys: list[tuple[Any, ...]] = []
    times: list[tuple[Any, ...]] = []
    bands: list[tuple[Any, ...]] = []
    packets: list[tuple[Any, ...]] = []
    for step, kind, name, about in call_entries(document, log):
        call = (step, kind, *operation_and_group(name))
        stated = about.get(TIMES_OF_CALL)
        if not isinstance(stated, dict):
            log.add("bad_call", "note", text="calls without times were skipped", example=name)
            continue
        keys.append(call)
        times.append((stated.get(START), *(stated.get(title) for title in CALL_TITLES.values())))
        links = about.get(MOVED_BY_CALL)
        for band, moved in links.items() if isinstance(links, dict) else ():
            if not isinstance(moved, dict):
                log.add("bad_band", "note", text="link types without a data size were skipped", example=band)
                continue
            if moved.get(SIZE) in _NO_DATA and moved.get(TRANSIT) in _NO_DATA:
                continue
            bands.append((*call, band, moved.get(SIZE), moved.get(TRANSIT), moved.get(RATIO)))
            spread = moved.get(PACKETS_OF_LINK)
            for size, counted in spread.items() if isinstance(spread, dict) else ():
                if isinstance(counted, list) and len(counted) == 2:
                    packets.append((*call, band, size, *counted))
                else:
                    log.add("bad_packets", "note", text="packet sizes without both a count and a time were skipped")
    calls, moved_by, sizes = (_columns(keys, 4, log), _columns(bands, 8, log), _columns(packets, 8, log))
    titles = (START, *CALL_TITLES.values())
    stated_times = dict(zip(titles, _columns(times, len(titles), log), strict=True))
    return {
        OPERATIONS: operations_of(dict(zip(_KEYS, calls, strict=True)), stated_times, rank, log),
        BANDS: bands_of(
            dict(zip(_KEYS, moved_by, strict=False)),
            moved_by[4],
            dict(zip((SIZE, TRANSIT, RATIO), moved_by[5:], strict=True)),
            rank,
            log,
        ),
        PACKETS: packets_of(dict(zip(_KEYS, sizes, strict=False)), sizes[4], (sizes[5], sizes[6], sizes[7]), rank, log),
    }


def call_entries(document: Mapping[str, Any], log: IssueLog) -> Iterator[tuple[str | None, str, str, dict[str, Any]]]:
    """Yields step, class, name and content of each entry, except totals. Logs entries of unexpected type."""
    for step, classes in document.items():
        for kind, named_ones in classes.items() if isinstance(classes, dict) else _odd(step, log):
            if kind not in CLASSES or not isinstance(named_ones, dict):
                log.add("bad_class", "note", text="entries that do not describe a call were skipped", example=kind)
                continue
            for name, about in named_ones.items():
                if name.startswith(TOTAL):
                    continue
                if isinstance(about, dict):
                    yield step_label(step), kind, name, about
                else:
                    log.add("bad_call", "note", text="calls without times were skipped", example=name)


def _odd(step: str, log: IssueLog) -> tuple[()]:
    log.add("bad_class", "note", text="entries that do not describe a call were skipped", example=step)
    return ()


def step_label(text: str) -> str | None:
    """Returns the label in a step name such as ``step13``, or None."""
    return text.removeprefix(_STEP) or None


def operation_and_group(name: str) -> tuple[str, str | None]:
    """Splits ``operation@group`` into operation and group."""
    operation, at, group = name.rpartition("@")
    return (operation, group) if at else (name, None)


def _columns(rows: list[tuple[Any, ...]], width: int, log: IssueLog) -> list[pa.Array]:
    columns = zip(*rows, strict=True) if rows else ((),) * width
    return [texts_of(column, log) for column in columns]


def _call(keys: Texts, rank: int | None) -> dict[str, Any]:
    count = len(keys["step"])
    return {"rank": pa.array([rank] * count, pa.int64()), **keys}


def _codes(keys: Texts) -> Any:
    """Returns an integer per row. Rows with equal keys have equal integers."""
    code = np.zeros(len(keys["step"]), np.int64)
    for column in keys.values():
        encoded = column.dictionary_encode()
        place = np.asarray(pc.fill_null(encoded.indices, len(encoded.dictionary))).astype(np.int64)
        code = np.unique(code * (len(encoded.dictionary) + 1) + place, return_inverse=True)[1].astype(np.int64)
    return code


def _is_some(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.greater(values, 0), False)
