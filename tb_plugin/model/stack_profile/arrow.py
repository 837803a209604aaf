"""The places as one Arrow file that any process maps: a column each, what is no column in the header."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from tb_plugin.errors import CacheFileLost
from tb_plugin.model.column_file import kept, one_list, read_columns, write_columns
from tb_plugin.model.stack_profile.table import Places, StackProfile
from tb_plugin.model.trace.report import Issue, ReadReport

VERSION = 2
"""Part of every cache key: raise it when the meaning or the set of columns changes."""
COLUMNS = ("label", "parent", "thread", "own")
_NODES = ("node", "node_place")
_AGAIN = "It is made anew from its file: ask again."


def write(profile: StackProfile, path: str) -> None:
    """Writes the file. Raises OSError."""
    header = {
        "version": VERSION,
        "stacks": profile.stacks,
        "threads": list(profile.threads),
        "counted": profile.counted,
        "what": profile.what,
        "report": asdict(profile.report),
    }
    columns = {name: one_list(pa.array(getattr(profile.places, name))) for name in COLUMNS}
    columns |= {name: one_list(pa.array(getattr(profile, name))) for name in _NODES}
    write_columns({"names": one_list(profile.names), **columns}, header, path)


def read(path: str) -> StackProfile:
    """Maps the file. Raises KeptLost when it is gone, damaged or of another version."""
    with kept("The kept columns are", path, _AGAIN):
        table, header = read_columns(path)
        if header["version"] != VERSION:
            raise CacheFileLost("The kept columns are of another version.", path, _AGAIN)

        def column(name: str) -> np.ndarray[Any, np.dtype[Any]]:
            values: np.ndarray[Any, np.dtype[Any]] = table[name].chunk(0).values.to_numpy()
            return values

        report = header["report"]
        issues = tuple(Issue(**{**issue, "examples": tuple(issue["examples"])}) for issue in report["issues"])
        return StackProfile(
            table["names"].chunk(0).values,
            Places(**{name: column(name) for name in COLUMNS}),
            threads=tuple(header["threads"]),
            stacks=header["stacks"],
            counted=header["counted"],
            what=header["what"],
            report=ReadReport(**{**report, "issues": issues}),
            **{name: column(name) for name in _NODES},
        )
