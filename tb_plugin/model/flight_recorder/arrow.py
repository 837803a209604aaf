"""The records as one Arrow file that any process maps: a column each, what is no column in the header."""

from __future__ import annotations

import json
from dataclasses import asdict

import pyarrow as pa

from tb_plugin.errors import CacheFileLost
from tb_plugin.model.column_file import header_of, kept
from tb_plugin.model.flight_recorder.table import Flight, Group, Status
from tb_plugin.model.trace.report import Issue, ReadReport

VERSION = 1
"""Part of every cache key: raise it when the meaning or the set of columns changes."""
_AGAIN = "It is made anew from its file: ask again."


def write(flight: Flight, path: str) -> None:
    """Writes the file. Raises OSError."""
    header = {
        "version": VERSION,
        "groups": [asdict(group) for group in flight.groups],
        "status": [asdict(status) for status in flight.status],
        "recorder": flight.version,
        "library": flight.library,
        "report": asdict(flight.report),
    }
    table = flight.records.replace_schema_metadata({"torch_trace": json.dumps(header)})
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def read(path: str) -> Flight:
    """Maps the file. Raises KeptLost when it is gone, damaged or of another version."""
    with kept("The kept columns are", path, _AGAIN):
        with pa.memory_map(path) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
        header = header_of(table)
        if header["version"] != VERSION:
            raise CacheFileLost("The kept columns are of another version.", path, _AGAIN)
        report = header["report"]
        issues = tuple(Issue(**{**issue, "examples": tuple(issue["examples"])}) for issue in report["issues"])
        return Flight(
            table.replace_schema_metadata(None),
            tuple(Group(each["name"], each["description"], tuple(each["ranks"])) for each in header["groups"]),
            tuple(Status(**each) for each in header["status"]),
            header["recorder"],
            header["library"],
            ReadReport(**{**report, "issues": issues}),
        )
