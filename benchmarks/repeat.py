"""Large valid traces from small real ones: the recorded window again and again, later and with ids of its own.

The text of the events stays as it is but for whole numbers in it: times, ids, numbers of steps. Of what stands around the
events only what is KEPT goes along: files that people published hold things that are nobody's business.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEPT = (
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "record_shapes",
    "profile_memory",
    "with_stack",
    "with_flops",
    "with_modules",
)
GAP_US = 1000
_IDS = (
    "External id",
    "external id",
    "correlation",
    "Ev Idx",
    "Python id",
    "Python parent id",
    "Sequence number",
    "Seq",
)
_NUMBERS = re.compile(rf'("(?:ts|external ts)": |"(?:{"|".join((*_IDS, "id"))})": |ProfilerStep#)(\d+)')
_BETWEEN = re.compile(r"[\s,]*")
_Event = dict[str, Any]


@dataclass(frozen=True)
class _Trace:
    """A file taken apart: the text of its events, those that stand once and those that are repeated."""

    head: str
    first: list[str]
    body: str
    last: list[str]
    events: list[_Event]
    repeated: int

    @property
    def window_us(self) -> tuple[int, int]:
        timed = [event for event in self.events if event.get("ph") == "X" and event.get("cat") != "Trace"]
        return int(min(e["ts"] for e in timed)), int(max(e["ts"] + e.get("dur", 0) for e in timed)) + 1


def repeat(sources: Sequence[Path], folder: Path, events: int) -> list[Path]:
    """Writes about ``events`` events, all files together, as .gz of the same names. All ranks of a run get one clock."""
    traces = [_take_apart(source) for source in sources]
    copies = max(1, round(events / sum(len(trace.events) for trace in traces)))
    windows = [trace.window_us for trace in traces]
    period = max(end for _, end in windows) - min(start for start, _ in windows) + GAP_US
    written = []
    for source, trace in zip(sources, traces, strict=True):
        written.append(folder / (source.name.removesuffix(".gz") + ".gz"))
        with gzip.open(written[-1], "wb", compresslevel=6) as target:
            target.writelines(piece.encode() for piece in _pieces(trace, copies, period))
    return written


def _take_apart(source: Path) -> _Trace:
    raw = (gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()).decode()
    document = json.loads(raw)
    head = json.dumps({key: document[key] for key in KEPT if key in document})[:-1]
    first, body, last = [], [], []
    for event, text in _texts(raw):
        if (
            event.get("ph") == "M"
            or event.get("cat") == "Trace"
            or str(event.get("name")).startswith("Iteration Start")
        ):
            first.append(text)
        elif event.get("name") == "Record Window End":
            last.append(text)
        else:
            body.append(text)
    return _Trace(head, first, ",\n  ".join(body), last, document["traceEvents"], len(body))


def _texts(raw: str) -> Iterator[tuple[_Event, str]]:
    decode = json.JSONDecoder().raw_decode
    begin = re.search(r'"traceEvents":\s*\[', raw)
    assert begin is not None
    position = begin.end()
    while True:
        between = _BETWEEN.match(raw, position)
        assert between is not None
        position = between.end()
        if raw[position] == "]":
            return
        event, end = decode(raw, position)
        yield event, raw[position:end]
        position = end


def _pieces(trace: _Trace, copies: int, period: int) -> Iterator[str]:
    """The file in pieces: one piece a copy."""
    longer = period * (copies - 1)
    yield trace.head + ',\n  "traceEvents": [\n  '
    yield ",\n  ".join(
        re.sub(r'("dur": )(\d+)', lambda m: m[1] + str(int(m[2]) + longer), text) for text in trace.first
    )
    parts = _NUMBERS.split(trace.body)
    literals = [before + key for before, key in zip(parts[0:-1:3], parts[1::3], strict=True)]
    numbers = [int(number) for number in parts[2::3]]
    by = _shifts(trace, parts[1::3], numbers, period)
    pieces = [""] * (2 * len(literals))
    pieces[0::2] = literals
    for copy in range(copies):
        pieces[1::2] = [str(number + copy * shift) for number, shift in zip(numbers, by, strict=True)]
        yield ",\n  " if copy or trace.first else ""
        yield "".join(pieces)
        yield parts[-1]
    for text in trace.last:
        yield ",\n  " + re.sub(r'("ts": )(\d+)', lambda m: m[1] + str(int(m[2]) + longer), text)
    yield "\n  ]\n}\n"


def _shifts(trace: _Trace, keys: Sequence[str], numbers: Sequence[int], period: int) -> list[int]:
    """By how much each number grows from copy to copy. An id that is 0 or less means none and stays."""
    names = [str(event.get("name")) for event in trace.events]
    steps = [int(name[13:]) for name in names if re.fullmatch(r"ProfilerStep#\d+", name)]
    ids = [number for key, number in zip(keys, numbers, strict=True) if key[0] == '"' and 'ts"' not in key]
    step, offset = max(steps, default=0) - min(steps, default=0) + 1, max(ids, default=0) + 1
    return [
        period if 'ts"' in key else step if key[0] == "P" else offset if number > 0 else 0
        for key, number in zip(keys, numbers, strict=True)
    ]
