"""Do text files and a database of one profile agree where they say the same? The text counts, the database is compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.csv_table import CsvTable
from tb_plugin.formats.ascend.kernels import DEVICE, DURATION

_NS = 0.001
"""Microseconds that a duration may lose where it is written with three decimals."""
_MIB_OF_A_BYTE = 1 / 1024**2
_BARS = 10_000
"""Bars that a time of a step is the sum of, at most, each of them rounded."""
_STEP = "Step"
_OF_STEPS = (
    "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free", "Stage", "Bubble", "Preparing",
)  # fmt: skip
_OF_MEMORY = ("Total Allocated(MB)", "Total Reserved(MB)")
MAX_DIFFERENCES = 5
"""Differences that are written out; of others the number."""


@dataclass(frozen=True)
class ComparedNumber:
    """A number that both can say, and how far two of them may be apart where both are right."""

    value: float
    within: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.value:,.3f} {self.unit}" if self.unit else f"{self.value:,.0f}"


Figures = dict[str, ComparedNumber]


def kernel_figures(dur_ns: np.ndarray) -> Figures:
    """Returns how many kernels there are, operations of groups among them, and how long they take together."""
    total = ComparedNumber(float(dur_ns.sum()) / 1000, _NS * (len(dur_ns) + 1), "us")
    return {"kernels": ComparedNumber(len(dur_ns), 0), "time of kernels": total}


def figures_of(tables: Mapping[str, CsvTable]) -> Figures:
    """Returns what tables say of kernels, of the peaks of allocators and of the times of steps."""
    found: Figures = {}
    if (table := tables.get(files.KERNELS)) is not None:
        time, there = table.nanoseconds(DURATION)
        found |= kernel_figures(time[there])
    if (table := tables.get(files.MEMORY)) is not None:
        found |= _peaks(table)
    if (table := tables.get(files.STEPS)) is not None:
        found |= _steps(table)
    return found


def compared(text: Figures, database: Figures) -> tuple[int, list[str]]:
    """Returns how many numbers both say alike, and a sentence for each that they do not."""
    shared = [name for name in text if name in database]
    apart = [name for name in shared if abs(text[name].value - database[name].value) > text[name].within]
    told = [
        f"{name}: {text[name]} in the text files, {database[name]} in the database" for name in apart[:MAX_DIFFERENCES]
    ]
    if len(apart) > MAX_DIFFERENCES:
        told.append(f"{len(apart) - MAX_DIFFERENCES} more numbers differ")
    return len(shared) - len(apart), told


def _peaks(table: CsvTable) -> Figures:
    found: Figures = {}
    names = table.texts("Component").dictionary_encode()
    place = np.asarray(names.indices.fill_null(-1))
    for title in _OF_MEMORY:
        values = table.numbers(title)
        for number, name in enumerate(names.dictionary.to_pylist()):
            mine = values[(place == number) & np.isfinite(values)]
            if len(mine):
                what = title.removesuffix("(MB)").removeprefix("Total ").lower()
                found[f"peak of what {name} has {what}"] = ComparedNumber(float(mine.max()), _MIB_OF_A_BYTE, "MiB")
    return found


def _steps(table: CsvTable) -> Figures:
    found: Figures = {}
    device = table.texts(DEVICE) if table.has(DEVICE) else pa.nulls(table.rows, pa.string())
    labels = list(zip(device.to_pylist(), table.texts(_STEP).to_pylist(), strict=True))
    # Only the newest files name the device; a step of several is not compared.
    alone = len({step for _, step in labels}) == len(labels)
    for title in _OF_STEPS if alone else ():
        for (_, step), value in zip(labels, table.numbers(title).tolist(), strict=True):
            if np.isfinite(value):
                within = _NS * min(_BARS, 10 + abs(value))
                found[f"{title} of step {step or '(none)'}"] = ComparedNumber(value, within, "us")
    return found
