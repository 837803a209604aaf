"""Sampled counters, with the names that a trace view uses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.formats.ascend.database.cells import Columns, Form
from tb_plugin.formats.ascend.database.host import lane_pid
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.rows import Rows
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.database.tasks import devices_in
from tb_plugin.formats.ascend.timeline import HIT_RATE
from tb_plugin.model.trace.table import CounterEvents

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Float64 = npt.NDArray[np.float64]

_KIB, _MIB = 1024.0, 1024.0**2
_FREQUENCY, _HBM, _LLC, _MEMORY = ("AI Core Freq", 14), ("HBM", 17), ("LLC", 18), ("NPU MEM", 19)
# processes of counters, and their sort order
_STARS, _ACCELERATOR, _QUALITY = ("Stars Soc Info", 20), ("Acc PMU", 21), ("QoS", 22)
_SIDES = {"app": "APP", "device": "Device"}
_PARTS = {"readBwLevel": "read_bandwidth", "writeBwLevel": "write_band_width", "readOstLevel": "read_ost",
          "writeOstLevel": "write_ost"}  # fmt: skip
_LEVELS = {"mataBwLevel": "Mata Bw Level", "l2BufferBwLevel": "L2 Buffer Bw Level"}
# link tables (as in the vendor's manual) -> title
_LINKS = {"NIC": "NIC", "ROCE": "RoCE", "HCCS": "HCCS", "PCIE": "PCIe", "DDR": "DDR", "NETDEV_STATS": "Network"}
_LINKS_ORDER = 24
_TIME, _DEVICE, _PORT = "timestampNs", "deviceId", "funcId"
_MAX_MODES = 64  # maximum number of directions, sides and columns; real tables have 2 to 20


class Counters:
    def __init__(self, database: Database, rows: Rows, names: Names, host_pid: str) -> None:
        self._database = database
        self._rows = rows
        self._names = names
        self._host_pid = host_pid
        self._parts: list[tuple[Int64, Float64, Int32, Int32, Int32]] = []

    def take(self) -> CounterEvents:
        """Returns all counters, sorted by time."""
        self._frequency()
        self._hbm()
        self._cache()
        self._memory()
        self._stars()
        self._accelerators()
        self._quality()
        self._links()
        if not self._parts:
            return CounterEvents()
        time, value, name, series, pid = (np.concatenate(each) for each in zip(*self._parts, strict=True))
        order = np.argsort(time, kind="stable")
        return CounterEvents(
            time_ns=time[order],
            value=value[order],
            event=np.arange(len(order), dtype=np.int32),
            name=name[order],
            series=series[order],
            pid=pid[order],
            tid=np.full(len(order), self._rows.text("0"), np.int32),
        )

    def _frequency(self) -> None:
        read = self._database.read("AICORE_FREQ", needs=_TIME, whole=_DEVICE, number="freq")
        self._add(_FREQUENCY, read, read.number("freq"), self._rows.text("AI Core Freq"), "MHz")

    def _hbm(self) -> None:
        read = self._database.read("HBM", needs=_TIME, whole=f"{_DEVICE} hbmId type", number="bandwidth")
        for mode, which, word in self._modes(read, "type"):
            part = read.take(which)
            name = self._rows.numbers(part.integers("hbmId"), f"HBM {{}}/{word}")
            self._add(_HBM, part, part.number("bandwidth") / _MIB, name, f"{mode.capitalize()}(MB/s)")

    def _cache(self) -> None:
        read = self._database.read("LLC", needs=_TIME, whole=f"{_DEVICE} llcId mode", number="hitRate throughput")
        for _, which, word in self._modes(read, "mode"):
            part = read.take(which)
            number = part.integers("llcId")
            through, hits = (
                self._rows.numbers(number, f"LLC {{}} {word}/{what}") for what in ("Throughput", "Hit Rate")
            )
            self._add(_LLC, part, part.number("throughput") / _MIB, through, "Throughput(MB/s)")
            self._add(_LLC, part, part.number("hitRate"), hits, HIT_RATE)

    def _memory(self) -> None:
        read = self._database.read("NPU_MEM", needs=_TIME, whole=f"{_DEVICE} type", number="ddr hbm")
        for mode, which, word in self._modes(read, "type"):
            part, side = read.take(which), _SIDES.get(mode, word)
            ddr, hbm = part.number("ddr"), part.number("hbm")
            for what, values in (("DDR", ddr), ("HBM", hbm), ("Memory", ddr + hbm)):
                self._add(_MEMORY, part, values / _KIB, self._rows.text(f"{side}/{what}"), "KB")

    def _stars(self) -> None:
        read = self._database.read("SOC_BANDWIDTH_LEVEL", needs=_TIME, whole=_DEVICE, number=" ".join(_LEVELS))
        for key, title in _LEVELS.items():
            self._add(_STARS, read, read.number(key), self._rows.text(title), title)

    def _accelerators(self) -> None:
        """Adds one series per accelerator. A trace view gives all accelerators the same series name."""
        read = self._database.read("ACC_PMU", needs=_TIME, whole=f"{_DEVICE} accId", number=" ".join(_PARTS))
        number = self._rows.numbers(read.integers("accId"), "acc_id {}")
        for key, title in _PARTS.items():
            self._add(_ACCELERATOR, read, read.number(key), self._rows.text(title), number)

    def _quality(self) -> None:
        read = self._database.read("QOS", needs=_TIME, whole=f"{_DEVICE} eventName", number="bandwidth")
        for _, which, word in self._modes(read, "eventName", keep_case=True):
            part = read.take(which)
            self._add(_QUALITY, part, part.number("bandwidth") / _MIB, self._rows.text(f"QoS {word}"), "value")

    def _links(self) -> None:
        """Adds rates and counts of links and memory. Each column becomes a counter."""
        place = {_TIME: Form.WHOLE, _DEVICE: Form.WHOLE, _PORT: Form.WHOLE}
        for order, (table, title) in enumerate(_LINKS.items()):
            keys = [each for each in self._database.columns(table) if each not in place][:_MAX_MODES]
            read = self._database.read_as(table, {**dict.fromkeys(keys, Form.NUMBER), **place}, [_TIME])
            for key in keys if read.rows else ():
                plain = key.replace("{", "{{").replace("}", "}}")
                ports = self._rows.numbers(read.integers(_PORT), f"{title} {{}}/{plain}")
                name = np.where(read.has_value(_PORT), ports, self._rows.text(f"{title}/{key}"))
                self._add((title, _LINKS_ORDER + order), read, read.number(key), name, key)

    def _modes(self, read: Columns, key: str, *, keep_case: bool = False) -> list[tuple[str, Int64, str]]:
        number = read.integers(key)
        found = []
        for each in np.unique(number).tolist()[:_MAX_MODES]:
            mode = self._names.cells(np.array([each]))[0].as_py() or ""
            found.append((mode, np.flatnonzero(number == each), mode if keep_case else mode.capitalize()))
        return found

    def _add(
        self,
        process: tuple[str, int],
        read: Columns,
        value: Float64,
        name: npt.NDArray[np.integer] | int,
        series: Int32 | str,
    ) -> None:
        time = read.integers(_TIME)
        kept = np.flatnonzero(read.has_value(_TIME) & (time >= 0) & (time < 2**62) & np.isfinite(value))
        if len(kept) < read.rows:
            self._database.log.add("bad_counter_value", "note", count=read.rows - len(kept))
        if not len(kept):
            return
        title, order = process
        device = devices_in(read)[kept]
        distinct, place = np.unique(device, return_inverse=True)
        pids = [lane_pid(self._host_pid, order, each) for each in distinct.tolist()]
        for pid, number in zip(pids, distinct.tolist(), strict=True):
            self._rows.process_names[pid] = f"{title} (NPU {number})" if len(distinct) > 1 else f"{title} (NPU)"
            self._rows.process_order[pid] = order
        ids = self._rows.text(series) if isinstance(series, str) else series
        name_ids, series_ids = (np.broadcast_to(np.asarray(each, np.int32), read.rows)[kept] for each in (name, ids))
        pid_ids = np.array([self._rows.text(pid) for pid in pids], np.int32)[place]
        self._parts.append((time[kept], value[kept], name_ids, series_ids, pid_ids))
