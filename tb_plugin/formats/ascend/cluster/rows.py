"""Rows of a job's tables, collected from all files."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tb_plugin.formats.ascend.cluster.numbers import float_of, scaled_integer
from tb_plugin.formats.ascend.communication_titles import CALL_TITLES, GB, MB, MS, PART_OF, TOTAL, US
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.job_tables import BANDS, LINKS, OPERATIONS, SCHEMAS

_CALL = ("rank", "step", "operation", "group")
_P2P = ("hcom_send", "hcom_receive", "hcom_batchsendrecv")
_PLACE = re.compile(r"(?s)(?P<operation>.*)-(?P<place>top1|middle|bottom[1-3]|total)\Z")
_P2P_KINDS = frozenset({"send", "receive", "batchsendrecv"})


class Rows:
    """Table rows of all files. ``log`` is the log of the current file."""

    def __init__(self, log: IssueLog) -> None:
        self.log = log
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(self, table: str, **values: Any) -> None:
        self._rows[table].append(values)

    def rows(self, table: str) -> Sequence[dict[str, Any]]:
        """Returns the rows added to a table so far."""
        return self._rows.get(table, ())

    def tables(self) -> dict[str, pa.Table]:
        """Returns the non-empty tables by name."""
        self._rows[BANDS] = _with_parts(self._rows.get(BANDS, []))
        return {name: _table(name, rows) for name, rows in self._rows.items() if rows}

    def operation(self, call: Mapping[str, Any], times: Sequence[Any]) -> None:
        """Adds a communication call. ``times``: start, elapsed, transit, wait, synchronization and idle time."""
        begin, *others = times
        self.add(
            OPERATIONS,
            **call,
            start_ns=scaled_integer(begin, US, self.log),
            **{key: scaled_integer(value, MS, self.log) for key, value in zip(CALL_TITLES, others, strict=True)},
        )

    def band(self, call: Mapping[str, Any], band: str, size: Any, time: Any, large: Any) -> None:
        """Adds the data that a call moved over one link type. Adds nothing if the call moved no data."""
        moved, took = scaled_integer(size, MB, self.log), scaled_integer(time, MS, self.log)
        if moved or took:
            self.add(BANDS, **call, band=band, bytes=moved, transit_ns=took, large_ratio=float_of(large, self.log))

    def link(
        self,
        step: str | None,
        name: str,
        group: str | None,
        ends: tuple[int, int],
        link: Sequence[Any],
        kind: str | None = None,
    ) -> None:
        """Adds a link between two ranks. ``link``: transport, size, time, bandwidth and an example call."""
        transport, size, time, bandwidth, example = link
        match = _PLACE.match(name)
        operation = None if name == TOTAL else match["operation"] if match else name
        per_second = float_of(bandwidth, self.log)
        self.add(
            LINKS,
            step=step,
            kind=kind if operation is None else kind or kind_of_call(operation),
            operation=operation,
            group=group,
            place="total" if name == TOTAL else match["place"] if match else None,
            source=ends[0],
            destination=ends[1],
            in_group=False,
            transport=text_of(transport),
            bytes=scaled_integer(size, MB, self.log),
            transit_ns=scaled_integer(time, MS, self.log),
            bytes_per_second=None if per_second is None else per_second * 10**GB,
            example=text_of(example),
        )


def _with_parts(bands: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Adds ``part_of`` to each row: the larger link type that includes the row's link type, if the same call also
    used it.
    """
    whole = {(*map(row.get, _CALL), row["band"]) for row in bands}
    return [
        row
        | {"part_of": part if (part := PART_OF.get(row["band"])) and (*map(row.get, _CALL), part) in whole else None}
        for row in map(dict, bands)
    ]


def kind_of_call(name: str) -> str:
    """Returns "p2p" if the name is that of a send or receive, otherwise "collective"."""
    lower = name.lower()
    return "p2p" if lower.startswith(_P2P) or lower in _P2P_KINDS else "collective"


def text_of(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    schema = pa.schema(SCHEMAS[name])
    return pa.Table.from_pylist(list(rows), schema)
