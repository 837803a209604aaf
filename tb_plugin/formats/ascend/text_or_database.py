"""Comparison of the numbers in text files and in databases.

The numbers in the text files are used. The database only serves to check them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pyarrow as pa

from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.kernel_details import DEVICE, DURATION

_DURATION_ROUNDING_US = 0.001  # us; rounding error of a duration with three decimals
_MIB_PER_BYTE = 1 / 1024**2
_MAX_BARS = 10_000  # maximum number of rounded bars in a step time
_STEP = "Step"
_STEP_TITLES = (
    "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage", "Bubble", "Preparing",
)  # fmt: skip
_MEMORY_TITLES = ("Total Allocated(MB)", "Total Reserved(MB)")
MAX_DIFFERENCES = 5  # maximum number of differences to describe; others are only counted


class ComparedNumber(msgspec.Struct, frozen=True):
    """A number that both sources contain, and the tolerance of its comparison."""

    value: float
    within: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.value:,.3f} {self.unit}" if self.unit else f"{self.value:,.0f}"


Figures = dict[str, ComparedNumber]


def kernel_figures(dur_ns: np.ndarray) -> Figures:
    """Returns the number of kernels and their total time. Communication operations are included."""
    total = ComparedNumber(float(dur_ns.sum()) / 1000, _DURATION_ROUNDING_US * (len(dur_ns) + 1), "us")
    return {"kernels": ComparedNumber(len(dur_ns), 0), "kernel time": total}


def figures_of(tables: Mapping[str, CsvTable]) -> Figures:
    """Returns totals of kernels, peaks of allocators, and step times in the tables."""
    found: Figures = {}
    if (table := tables.get(files.KERNELS)) is not None:
        time, has_time = table.nanoseconds(DURATION)
        found |= kernel_figures(time[has_time])
    if (table := tables.get(files.MEMORY)) is not None:
        found |= _peaks(table)
    if (table := tables.get(files.STEPS)) is not None:
        found |= _steps(table)
    return found


def compare_sources(text: Figures, database: Figures) -> tuple[int, list[str]]:
    """Returns how many numbers are equal in both sources, and a sentence for each number that is not."""
    shared = [name for name in text if name in database]
    different = [name for name in shared if abs(text[name].value - database[name].value) > text[name].within]
    sentences = [
        f"{name}: {text[name]} in the text files, {database[name]} in the database"
        for name in different[:MAX_DIFFERENCES]
    ]
    if len(different) > MAX_DIFFERENCES:
        sentences.append(f"{len(different) - MAX_DIFFERENCES} more numbers differ")
    return len(shared) - len(different), sentences


def _peaks(table: CsvTable) -> Figures:
    found: Figures = {}
    names = table.texts("Component").dictionary_encode()
    place = np.asarray(names.indices.fill_null(-1))
    for title in _MEMORY_TITLES:
        values = table.numbers(title)
        for number, name in enumerate(names.dictionary.to_pylist()):
            mine = values[(place == number) & np.isfinite(values)]
            if len(mine):
                what = title.removesuffix("(MB)").removeprefix("Total ").lower()
                found[f"peak {what} memory of {name}"] = ComparedNumber(float(mine.max()), _MIB_PER_BYTE, "MiB")
    return found


def _steps(table: CsvTable) -> Figures:
    found: Figures = {}
    device = table.texts(DEVICE) if table.has(DEVICE) else pa.nulls(table.rows, pa.string())
    labels = list(zip(device.to_pylist(), table.texts(_STEP).to_pylist(), strict=True))
    # Only the newest files contain the device. A step on several devices is not compared.
    is_unique = len({step for _, step in labels}) == len(labels)
    for title in _STEP_TITLES if is_unique else ():
        for (_, step), value in zip(labels, table.numbers(title).tolist(), strict=True):
            if np.isfinite(value):
                within = _DURATION_ROUNDING_US * min(_MAX_BARS, 10 + abs(value))
                found[f"{title} of step {step or '(none)'}"] = ComparedNumber(value, within, "us")
    return found
