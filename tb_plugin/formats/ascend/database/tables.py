"""Memory tables, in the columns of the CSV files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats._chrome.interning import Interner
from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.database.cells import Columns
from tb_plugin.formats.ascend.database.names import Names
from tb_plugin.formats.ascend.database.safe_open import Database
from tb_plugin.formats.ascend.database.typed_table import TypedTable
from tb_plugin.formats.ascend.kernel_details import DEVICE
from tb_plugin.formats.ascend.memory import GRAPH, KIB, MIB, OF_GRAPH
from tb_plugin.lib.arrays import Float64

_BLOCK_TIMES = {
    "allocationTime": "Allocation Time(us)", "releaseTime": "Release Time(us)",
    "activeReleaseTime": "Active Release Time(us)", "duration": "Duration(us)", "activeDuration": "Active Duration(us)",
}  # fmt: skip
_BLOCK_TOTALS = {
    f"{when.lower()}Total{what}": f"{when} Total {what}(MB)"
    for when in ("Allocation", "Release")
    for what in ("Allocated", "Reserved", "Active")
}
_TOTALS = {f"total{what}": f"Total {what}(MB)" for what in ("Allocated", "Reserved", "Active")}
PROCESS = "APP"  # component for the whole process, as measured by the driver
_PROCESS_TYPE = "app"


def memory_tables(database: Database, names: Names, interner: Interner, texts: frozenset[str]) -> dict[str, TypedTable]:
    """Returns the memory tables by file name. Omits those that the text files ``texts`` contain."""
    found = {}
    for file, make in ((files.BLOCKS, _blocks), (files.MEMORY, _totals), (files.MODULES, _modules)):
        if file not in texts and (table := make(database, names, interner)).rows:
            found[file] = table
    return found


def _blocks(database: Database, names: Names, interner: Interner) -> TypedTable:
    read = database.read(
        "OP_MEMORY",
        needs="size",
        whole=" ".join(("name deviceId streamPtr", *_BLOCK_TIMES)),
        number=" ".join(_BLOCK_TOTALS),
    )
    columns = {
        "Name": _with_allocator(read, names.cells(read.integers("name"))),
        "Size(KB)": _in_unit(KIB, _as_number(read, "size")),
        "Device Type": _device_types(read),
        **{title: _in_unit(MIB, read.number(key)) for key, title in _BLOCK_TOTALS.items()},
    }
    return TypedTable(columns, {title: read.array(key) for key, title in _BLOCK_TIMES.items()}, database.log)


def _with_allocator(read: Columns, name: pa.Array) -> pa.Array:
    """Adds a prefix to the names of the graph engine's blocks, as in the CSV files. Only these blocks have no stream."""
    is_graph = ~read.has_value("streamPtr") & read.has("streamPtr")
    return pc.if_else(pa.array(is_graph), pc.binary_join_element_wise(OF_GRAPH, name, ""), name)


def _totals(database: Database, names: Names, interner: Interner) -> TypedTable:
    read = database.read("MEMORY_RECORD", needs="timestamp", whole="component deviceId", number=" ".join(_TOTALS))
    driver = database.read("NPU_MEM", needs="timestampNs", whole="type deviceId", number="hbm ddr")
    process = names.cells(driver.integers("type")).to_pylist()
    driver = driver.take(np.flatnonzero(np.array([each == _PROCESS_TYPE for each in process], np.bool_)))
    reserved = np.nansum((driver.number("hbm"), driver.number("ddr")), axis=0)
    none = np.full(driver.rows, np.nan)
    more = {"totalReserved": reserved}
    component = names.cells(read.integers("component"))
    # The graph engine's allocator has no such total. It is empty in files, and 0 in the database.
    has_active = np.asarray(pc.fill_null(pc.not_equal(component, GRAPH), True))
    stated = {key: read.number(key) for key in _TOTALS}
    stated["totalActive"] = np.where(has_active, stated["totalActive"], np.nan)
    columns = {
        "Component": pa.concat_arrays((component, pa.array([PROCESS] * driver.rows, pa.string()))),
        "Device Type": pa.concat_arrays((_device_types(read), _device_types(driver))),
        **{title: _in_unit(MIB, np.concatenate((stated[key], more.get(key, none)))) for key, title in _TOTALS.items()},
    }
    times = pa.concat_arrays((read.array("timestamp"), driver.array("timestampNs")))
    return TypedTable(columns, {"Timestamp(us)": times}, database.log)


def _modules(database: Database, names: Names, interner: Interner) -> TypedTable:
    read = database.read("NPU_MODULE_MEM", needs="moduleId timestampNs", whole="deviceId", number="totalReserved")
    words = Names(database, interner, "ENUM_MODULE", "name")
    columns = {
        DEVICE: read.array("deviceId"),
        "Component": words.cells(read.integers("moduleId")),
        "Total Reserved(MB)": _in_unit(MIB, read.number("totalReserved")),
        "Device": _device_types(read),
    }
    return TypedTable(columns, {"Timestamp(us)": read.array("timestampNs")}, database.log)


def _as_number(read: Columns, key: str) -> Float64:
    return np.where(read.has_value(key), read.integers(key).astype(np.float64), np.nan)


def _in_unit(unit: float, values: Float64) -> pa.Array:
    """Converts bytes to a larger unit; null = missing. The result is exact, because units are powers of two."""
    return pa.array(values / unit, mask=np.isnan(values))


def _device_types(read: Columns) -> pa.Array:
    return pc.binary_join_element_wise("NPU", read.array("deviceId").cast(pa.string()), ":")
