"""Names of processes, threads and devices, from any file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from tb_plugin.formats._chrome.other_events import Names as ViewNames
from tb_plugin.formats.ascend.database.content import Content
from tb_plugin.formats.ascend.lanes import Lanes
from tb_plugin.model.trace.schema import MISSING


class NamesOf(msgspec.Struct, frozen=True):
    """Names and sort order of processes and threads."""

    processes: Mapping[str, str]
    threads: Mapping[tuple[str, str], str]
    process_order: Mapping[str, int]
    thread_order: Mapping[tuple[str, str], int]

    @classmethod
    def of(cls, found: Content | ViewNames) -> NamesOf:
        """Returns the names in a trace view or a database."""
        if isinstance(found, Content):
            return cls(found.process_names, found.thread_names, found.process_order, {})
        processes, threads = found.processes(), found.threads()
        return cls(processes, threads, found.process_order, Lanes((), processes, threads).order(found.thread_order))


class NameRows:
    """Names and kinds of rows."""

    def __init__(self, name: Any, kind: Any) -> None:
        self.name = name
        self.kind = kind


def devices_of(number: Any, others: Any) -> tuple[list[str], Any]:
    """Returns the distinct devices, sorted by number, and the index of each row's device.

    ``others`` are further devices, which have no rows.
    """
    found = np.union1d(number[number != MISSING], others)
    of_rows = np.full(len(number), MISSING, np.int16)
    of_rows[number != MISSING] = np.searchsorted(found, number[number != MISSING])
    return [str(each) for each in found.tolist()], of_rows
