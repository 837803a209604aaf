"""Sampled counters, with the names that a trace view uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tb_plugin.formats.ascend.database.cells import Form
from tb_plugin.formats.ascend.database.rows import Rows, devices_in, distinct_pairs, lane_pid
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.timeline import HIT_RATE
from tb_plugin.lib.arrays import Float64, Int32, Int64
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import CounterEvents

_KIB, _MIB = 1024.0, 1024.0**2
_TIME, _DEVICE, _PORT = "timestampNs", "deviceId", "funcId"
_MAX_COLUMNS = 64  # limit on the columns of a table of links; real tables have 2 to 20


class _Counter(NamedTuple):
    """Columns to add up. In names, ``{n}`` is the number of the unit, ``{mode}`` and ``{word}`` its mode."""

    columns: str
    name: str
    series: str
    unit: float = 1.0


class _Table(NamedTuple):
    """Table of counters. ``order`` is the position of their process."""

    table: str
    process: str
    order: int
    counters: Sequence[_Counter]
    number: str = ""  # column with the number of the counted unit
    mode: str = ""  # column with the mode, as a number in the table of texts


_TABLES = (
    _Table("AICORE_FREQ", "AI Core Freq", 14, [_Counter("freq", "AI Core Freq", "MHz")]),
    _Table("HBM", "HBM", 17, [_Counter("bandwidth", "HBM {n}/{mode}", "{mode}(MB/s)", _MIB)], "hbmId", "type"),
    _Table(
        "LLC", "LLC", 18,
        [
            _Counter("throughput", "LLC {n} {mode}/Throughput", "Throughput(MB/s)", _MIB),
            _Counter("hitRate", "LLC {n} {mode}/Hit Rate", HIT_RATE),
        ],
        "llcId", "mode",
    ),
    _Table(
        "NPU_MEM", "NPU MEM", 19,
        [
            _Counter("ddr", "{mode}/DDR", "KB", _KIB), _Counter("hbm", "{mode}/HBM", "KB", _KIB),
            _Counter("ddr hbm", "{mode}/Memory", "KB", _KIB),
        ],
        "", "type",
    ),
    _Table(
        "SOC_BANDWIDTH_LEVEL", "Stars Soc Info", 20,
        [
            _Counter("mataBwLevel", "Mata Bw Level", "Mata Bw Level"),
            _Counter("l2BufferBwLevel", "L2 Buffer Bw Level", "L2 Buffer Bw Level"),
        ],
    ),
    # One series per accelerator; a trace view gives all accelerators the same series name.
    _Table(
        "ACC_PMU", "Acc PMU", 21,
        [
            _Counter("readBwLevel", "read_bandwidth", "acc_id {n}"),
            _Counter("writeBwLevel", "write_band_width", "acc_id {n}"),
            _Counter("readOstLevel", "read_ost", "acc_id {n}"),
            _Counter("writeOstLevel", "write_ost", "acc_id {n}"),
        ],
        "accId",
    ),
    _Table("QOS", "QoS", 22, [_Counter("bandwidth", "QoS {word}", "value", _MIB)], "", "eventName"),
)  # fmt: skip
# tables of links (as in the vendor's manual), in the order of their processes; each column is a counter
_LINKS = {"NIC": "NIC", "ROCE": "RoCE", "HCCS": "HCCS", "PCIE": "PCIe", "DDR": "DDR", "NETDEV_STATS": "Network"}
_LINKS_ORDER = 24


def counters_in(database: Database, rows: Rows, host_pid: str) -> CounterEvents:
    """Returns all counters, sorted by time. Names their processes."""
    parts = [part for table in (*_TABLES, *_links(database)) for part in _table_parts(database, rows, host_pid, table)]
    if not parts:
        return CounterEvents()
    time, value, name, series, pid = (np.concatenate(each) for each in zip(*parts, strict=True))
    order = np.argsort(time, kind="stable")
    return CounterEvents(
        time_ns=time[order],
        value=value[order],
        event=np.arange(len(order), dtype=np.int32),
        name=name[order],
        series=series[order],
        pid=pid[order],
        tid=np.full(len(order), rows.text("0"), np.int32),
    )


def _links(database: Database) -> Iterator[_Table]:
    for order, (table, title) in enumerate(_LINKS.items()):
        keys = [each for each in database.columns(table) if each not in (_TIME, _DEVICE, _PORT)][:_MAX_COLUMNS]
        plain = {key: key.replace("{", "{{").replace("}", "}}") for key in keys}
        counters = [_Counter(key, f"{title} {{n}}/{plain[key]}", plain[key]) for key in keys if " " not in key]
        yield _Table(table, title, _LINKS_ORDER + order, counters, _PORT)


def _table_parts(
    database: Database, rows: Rows, host_pid: str, table: _Table
) -> Iterator[tuple[Int64, Float64, Int32, Int32, Int32]]:
    columns = dict.fromkeys(" ".join(counter.columns for counter in table.counters).split(), Form.NUMBER)
    whole = dict.fromkeys((_TIME, _DEVICE, table.number, table.mode), Form.WHOLE)
    read = database.read_as(table.table, {**columns, **whole}, [_TIME])
    if not read.rows:
        return
    modes, numbers, place = distinct_pairs(read.integers(table.mode), read.integers(table.number))
    words = ["" if each == MISSING else rows.interner.texts[each] for each in rows.names.ids(modes).tolist()]
    pairs = list(zip(words, numbers.tolist(), strict=True))
    time, device = read.integers(_TIME), devices_in(read)
    good = read.has_value(_TIME) & (time >= 0) & (time < 2**62)
    for counter in table.counters:
        value = np.sum([read.number(column) for column in counter.columns.split()], axis=0) / counter.unit
        kept = np.flatnonzero(good & np.isfinite(value))
        if len(kept) < read.rows:
            database.log.add("bad_counter_value", "note", count=read.rows - len(kept))
        if not len(kept):
            continue
        name, series = (
            np.array([rows.text(_formatted(text, *pair)) for pair in pairs], np.int32)[place][kept]
            for text in (counter.name, counter.series)
        )
        yield time[kept], value[kept], name, series, _processes(rows, table, host_pid, device[kept])


def _formatted(text: str, word: str, number: int) -> str:
    mode = "APP" if word == "app" else word.capitalize()
    return (
        text.format(n=number, mode=mode, word=word)
        if number != MISSING
        else text.replace(" {n}", "").format(mode=mode, word=word)
    )


def _processes(rows: Rows, table: _Table, host_pid: str, device: Int64) -> Int32:
    distinct, place = np.unique(device, return_inverse=True)
    pids = [lane_pid(host_pid, table.order, each) for each in distinct.tolist()]
    for pid, number in zip(pids, distinct.tolist(), strict=True):
        label = f"NPU {number}" if len(distinct) > 1 else "NPU"
        rows.process_names[pid], rows.process_order[pid] = f"{table.process} ({label})", table.order
    found: Int32 = np.array([rows.text(pid) for pid in pids], np.int32)[place]
    return found
