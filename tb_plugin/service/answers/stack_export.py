"""Export of merged stacks as folded stacks and speedscope JSON.

Both formats contain every stack that has self time, in nanoseconds. The sums therefore equal those on the page.
"""

from __future__ import annotations

import gzip
import re
from collections import defaultdict
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from tb_plugin import __version__
from tb_plugin.analysis.base import Params
from tb_plugin.analysis.flame.nodes import FlameGraph
from tb_plugin.analysis.host_threads import threads_of
from tb_plugin.analysis.selection import select_rows
from tb_plugin.errors import BadRequest, NotFoundError
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.views.stacks.options import choice_of
from tb_plugin.views.stacks.places import merged_stacks

# Formats and their file extensions.
SUFFIXES = {"folded": ".folded.txt", "speedscope": ".speedscope.json"}
_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_BREAKS = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")


def write_stacks(trace: TraceTable, params: Params, form: str, target: str) -> None:
    """Writes stacks to the gzipped file ``target``. Raises BadRequest, and NotFoundError if there are no stacks."""
    if form not in SUFFIXES:
        raise BadRequest(f"There is no format {form[:40]}.", "format", f"Choose one of {', '.join(SUFFIXES)}.")
    choice = replace(choice_of(params), order="heavy")  # in time order there may be as many stacks as events
    # A flame graph merges all threads; speedscope shows one thread at a time.
    places = merged_stacks(trace, select_rows(trace, *params.chosen), choice, by_thread=form == "speedscope")
    if not len(places):
        raise NotFoundError(f"No stack has {choice.weight} time.", "weight", "Choose other frames or another weight.")
    own = (places.host_ns if choice.weight == "host" else places.device_ns).tolist()
    pieces = _folded(places, own) if form == "folded" else _speedscope(trace, places, own)
    with gzip.open(target, "wb", compresslevel=3) as out:
        for piece in pieces:
            out.write(piece)


def _folded(places: FlameGraph, own: list[int]) -> Iterator[bytes]:
    """Yields a line ``outermost;...;innermost nanoseconds`` per stack with self time, longest first."""
    open_places: list[int] = []
    texts: list[str] = []
    for place, above in enumerate(places.parent.tolist()):
        while open_places and open_places[-1] != above:
            open_places.pop()
            texts.pop()
        open_places.append(place)
        frame = _frame(places.name[place])
        texts.append(f"{texts[-1]};{frame}" if texts else frame)
        if own[place]:
            yield f"{texts[-1]} {own[place]}\n".encode()


def _frame(name: str) -> str:
    return _BREAKS.sub(" ", name).replace(";", ":").strip() or "(no name)"


def _speedscope(trace: TraceTable, places: FlameGraph, own: list[int]) -> Iterator[bytes]:
    frames: dict[str, int] = {}
    frame = [frames.setdefault(name, len(frames)) for name in places.name]
    threads: dict[int, list[int]] = defaultdict(list)
    for place, thread in enumerate(places.thread.tolist()):
        if own[place]:
            threads[thread].append(place)
    yield b'{"$schema":%b,"exporter":%b,"activeProfileIndex":0,"shared":{"frames":[' % (
        msgspec.json.encode(_SCHEMA),
        msgspec.json.encode(f"torch-trace {__version__}"),
    )
    yield from _in_blocks(msgspec.json.encode({"name": name}) for name in frames)
    yield b']},"profiles":['
    ordered = sorted(threads.items(), key=lambda item: -sum(own[place] for place in item[1]))
    titles = {thread.number: f"{thread.name} {thread.key}" for thread in threads_of(trace)}
    for number, (thread, members) in enumerate(ordered):
        title = places.name[members[0]] if thread == MISSING else titles[thread]
        weights = [own[place] for place in members]
        yield b',\n{"type":"sampled"' if number else b'\n{"type":"sampled"'
        yield b',"name":%b,"unit":"nanoseconds"' % msgspec.json.encode(title)
        yield b',"startValue":0,"endValue":%d,"samples":[' % sum(weights)
        yield from _in_blocks(msgspec.json.encode(stack) for stack in _stacks(places, frame, members))
        yield b'],"weights":' + msgspec.json.encode(weights) + b"}"
    yield b"\n]}\n"


def _stacks(places: FlameGraph, frame: list[int], members: list[int]) -> Iterator[list[int]]:
    parent = places.parent.tolist()
    for place in members:
        stack = []
        while place != MISSING:
            stack.append(frame[place])
            place = parent[place]
        yield stack[::-1]


def _in_blocks(items: Iterator[bytes]) -> Iterator[bytes]:
    separator = b"\n"
    for item in items:
        yield separator + item
        separator = b",\n"
