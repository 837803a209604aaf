"""A second, slow count of everything, from the file alone: plain Python, integers, loops; nothing of tb_plugin.

Written from docs/concepts. Where tb_plugin nests with searches and sums with arrays, this walks lists of open events,
and adds each device event to the set of names above it. One long file, so that nothing else has to be trusted.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

Counts = dict[str, Any]

KINDS = {
    **dict.fromkeys(("cpu_op", "operator"), "operator"),
    "user_annotation": "annotation",
    "python_function": "python",
    **dict.fromkeys(("runtime", "cuda_runtime", "cuda_driver", "hip_runtime", "hip_driver"), "runtime"),
    "kernel": "kernel",
    **dict.fromkeys(("memcpy", "gpu_memcpy"), "memcpy"),
    **dict.fromkeys(("memset", "gpu_memset"), "memset"),
}
WORK = ("kernel", "memcpy", "memset")
CATEGORIES = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu")
NO_OPERATOR = "(no operator)"
MARKER = re.compile(
    r"ProfilerStep#|enumerate\(DataLoader\)#|enumerate\(DataPipe\)#|Optimizer\.|.*DataParallel\.forward$|\[pl\]\["
)
COLLECTIVE_OP = re.compile(r"(nccl|gloo):|c10d::|record_param_comms")
RANK = {"annotation": 1, "module": 2, "python": 2, "operator": 4, "runtime": 5, "kernel": 6, "memcpy": 6, "memset": 6}


@dataclass(eq=False)
class Event:
    kind: str
    name: str
    start: int
    end: int
    thread: tuple[str, str]
    args: dict[str, Any]
    parent: Event | None = None
    """Innermost operator, module or runtime call that encloses it (host)."""
    above: Event | None = None
    """Innermost enclosing event of the same kind (operators among operators, modules among modules)."""
    covered: int = 0
    operator: Event | None = None
    launch: Event | None = None
    forward: Event | None = None

    @property
    def dur(self) -> int:
        return self.end - self.start

    def chain(self) -> Iterable[Event]:
        event: Event | None = self
        while event is not None:
            yield event
            event = event.above


def nanoseconds(number: Any) -> int:
    """Microseconds as the file writes them."""
    whole, _, part = str(number).partition(".")
    if len(part) <= 3 and (part.isdecimal() or not part) and whole.lstrip("-").isdecimal():
        return int(whole + part.ljust(3, "0"))
    value = Decimal(str(number)) * 1000
    return int(value.to_integral_value())


@dataclass
class Recount:
    """Everything that is compared, in nanoseconds."""

    counts: Counts = field(default_factory=dict)
    steps: dict[str, Counts] = field(default_factory=dict)
    devices: dict[str, Counts] = field(default_factory=dict)
    operators: dict[str, Counts] = field(default_factory=dict)
    kernels: dict[str, Counts] = field(default_factory=dict)
    modules: dict[str, Counts] = field(default_factory=dict)


def recount(path: Path) -> Recount:
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    root = json.loads(content, parse_float=str)
    listed = root["traceEvents"] if isinstance(root, dict) else root
    known = [e for e in map(_event, listed) if e is not None]
    if not any(e.kind == "module" for e in known):
        for event in known:
            if event.kind in ("annotation", "operator") and event.name.startswith(("[pl][module]", "nn.Module: ")):
                event.kind = "module"
    events = sorted(
        known,
        key=lambda e: (e.start, -e.dur, RANK[e.kind], _identity(e), e.name),
    )
    by_kind: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_kind[event.kind].append(event)
    work = [e for e in events if e.kind in WORK]
    operators, modules, calls = by_kind["operator"], by_kind["module"], by_kind["runtime"]
    _nest(sorted([*operators, *modules, *calls], key=events_order(events)), "parent")
    _nest(operators, "above")
    _nest(modules, "above")
    _link(work, calls, operators)
    _tie_forward(listed, operators)
    collective = _collective(work, by_kind["annotation"])
    found = Recount()
    found.counts = {
        "trace.runtime_calls": len(calls),
        "trace.python_functions": len(by_kind["python"]) + len(modules),
        "trace.cpu_ops": sum(
            str(e.get("cat", "")).lower() in ("cpu_op", "operator") and e.get("ph") == "X" for e in listed
        ),
    }
    found.devices = {device: _partition(its, collective) for device, its in _by_device(work).items()}
    found.steps = _steps(events, work, collective)
    found.operators = _operators(operators, work)
    found.kernels = _kernels(by_kind["kernel"])
    found.modules = _modules(modules, operators, work, collective)
    return found


def events_order(events: Sequence[Event]) -> Callable[[Event], int]:
    place = {id(event): i for i, event in enumerate(events)}
    return lambda event: place[id(event)]


def _event(event: dict[str, Any]) -> Event | None:
    kind = KINDS.get(str(event.get("cat", "")).lower())
    if event.get("ph") != "X" or kind is None or event.get("name") == "[memory]":
        return None
    args = event.get("args") or {}
    start, dur = nanoseconds(event["ts"]), nanoseconds(event["dur"])
    if kind == "operator" and MARKER.match(event["name"]):
        kind = "annotation"
    if kind == "python" and args.get("Python module id") is not None:
        kind = "module"
    if kind in WORK and start == dur == 0:
        return None
    return Event(kind, event["name"], start, start + dur, (str(event.get("pid")), str(event.get("tid"))), args)


def _identity(event: Event) -> int:
    if event.kind in ("python", "module"):
        return int(event.args.get("Python id", -1))
    return int(event.args.get("External id", event.args.get("external id", -1)))


def _nest(events: Sequence[Event], attribute: str) -> None:
    """The latest-started event that encloses another whole; and the time that direct children cover."""
    open_on: dict[tuple[str, str], list[Event]] = defaultdict(list)
    children: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        still = [e for e in open_on[event.thread] if e.end > event.start]
        around = next((e for e in reversed(still) if e.end >= event.end), None)
        setattr(event, attribute, around)
        if around is not None:
            children[id(around)].append(event)
        open_on[event.thread] = [*still, event]
    if attribute == "parent":
        for event in events:
            event.covered = length((c.start, c.end) for c in children[id(event)])


def length(pairs: Iterable[tuple[int, int]]) -> int:
    total, reach = 0, -(10**30)
    for start, end in sorted(pairs):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


def open_at(events: Sequence[Event], points: Sequence[Event]) -> list[Event | None]:
    """For each point the latest-started of ``events`` that is open on its thread when it starts."""
    marks = [(e.start, 0, i) for i, e in enumerate(events)] + [(p.start, 1, i) for i, p in enumerate(points)]
    found: list[Event | None] = [None] * len(points)
    open_on: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for time, is_point, i in sorted(marks):
        if not is_point:
            open_on[events[i].thread].append(events[i])
            continue
        thread = points[i].thread
        open_on[thread] = [e for e in open_on[thread] if e.end > time]
        found[i] = open_on[thread][-1] if open_on[thread] else None
    return found


def _link(work: list[Event], calls: list[Event], operators: list[Event]) -> None:
    for call, operator in zip(calls, open_at(operators, calls), strict=True):
        call.operator = operator
    first_call: dict[int, Event] = {}
    for call in calls:
        first_call.setdefault(int(call.args.get("correlation", -1)), call)
    by_id: dict[int, Event] = {}
    for operator in operators:
        by_id.setdefault(_identity(operator), operator)
    for event in work:
        correlation, ident = int(event.args.get("correlation", -1)), _identity(event)
        event.launch = first_call.get(correlation) if correlation > 0 else None
        if event.launch is not None:
            event.operator = event.launch.operator
        elif ident > 0:
            event.operator = by_id.get(ident)


def _tie_forward(listed: list[dict[str, Any]], operators: list[Event]) -> None:
    with_number: dict[int, list[Event]] = defaultdict(list)
    backward = []
    for operator in operators:
        number = operator.args.get("Sequence number")
        if number is not None and int(number) >= 0:
            is_backward = int(operator.args.get("Fwd thread id", 0)) > 0
            (backward if is_backward else with_number[int(number)]).append(operator)
    for operator in backward:
        candidates = with_number[int(operator.args["Sequence number"])]
        if len({c.thread for c in candidates}) == 1:
            operator.forward = candidates[-1]
    begins: dict[tuple[tuple[str, str], int], Event] = {}
    for operator in operators:  # the innermost of those that begin together stands last
        begins[operator.thread, operator.start] = operator
    ends: dict[Any, dict[str, Event | None]] = defaultdict(dict)
    for event in listed:
        if event.get("cat") in ("fwdbwd", "forward_backward") and event.get("ph") in ("s", "f"):
            thread = (str(event.get("pid")), str(event.get("tid")))
            ends[event["id"]][event["ph"]] = begins.get((thread, nanoseconds(event["ts"])))
    for pair in ends.values():
        source, target = pair.get("s"), pair.get("f")
        if source is not None and target is not None and source is not target:
            target.forward = source


def _collective(work: list[Event], annotations: list[Event]) -> set[int]:
    named = {_identity(a) for a in annotations if COLLECTIVE_OP.match(a.name) and _identity(a) > 0}
    found = set()
    for event in work:
        if event.kind != "kernel":
            continue
        by_name = re.search(r"(^|\W)nccl", event.name) or "Collective name" in event.args
        by_operator = event.operator is not None and COLLECTIVE_OP.match(event.operator.name)
        by_annotation = event.launch is None and _identity(event) in named
        if by_name or by_operator or by_annotation:
            found.add(id(event))
    return found


def _by_device(work: list[Event]) -> dict[str, list[Event]]:
    found: dict[str, list[Event]] = defaultdict(list)
    for event in work:
        found[str(event.args.get("device", event.thread[0]))].append(event)
    return found


def sweep(classes: dict[str, list[tuple[int, int]]]) -> list[tuple[int, int, frozenset[str]]]:
    """Time cut where anything changes: start, end and the classes that are active in between."""
    changes: list[tuple[int, int, str]] = []
    for name, pairs in classes.items():
        for start, end in pairs:
            if end > start:
                changes += [(start, 1, name), (end, -1, name)]
    active: dict[str, int] = defaultdict(int)
    present: frozenset[str] = frozenset()
    pieces, last = [], 0
    for time, change, name in sorted(changes):
        if time > last and present:
            pieces.append((last, time, present))
        active[name] += change
        if active[name] == max(change, 0):
            present = present | {name} if change > 0 else present - {name}
        last = time
    return pieces


def _partition(work: list[Event], collective: set[int]) -> Counts:
    priority = ("compute", "communication", "memcpy", "memset")
    classes: dict[str, list[tuple[int, int]]] = {name: [] for name in priority}
    for event in work:
        kind = event.kind
        if kind == "kernel":
            kind = "communication" if id(event) in collective else "compute"
        classes[kind].append((event.start, event.end))
    found = {"busy_ns": 0, **{f"{name}_ns": 0 for name in priority}, **{f"exposed_{n}_ns": 0 for n in priority[1:]}}
    for start, end, present in sweep(classes):
        found["busy_ns"] += end - start
        for name in present:
            found[f"{name}_ns"] += end - start
        first = next(name for name in priority if name in present)
        if first != "compute":
            found[f"exposed_{first}_ns"] += end - start
    window = max(e.end for e in work) - min(e.start for e in work)
    kernels = [e for e in work if e.kind == "kernel"]
    return {
        **found,
        "window_ns": window,
        "idle_ns": window - found["busy_ns"],
        "no_operator_ns": sum(e.dur for e in work if e.operator is None),
        "kernels": len(kernels),
        "memcpys": sum(e.kind == "memcpy" for e in work),
        "memsets": sum(e.kind == "memset" for e in work),
        "unlaunched": sum(e.launch is None for e in work),
    }


SERVED = re.compile(r"step\[[A-Z_]+ bs=|execute_\d+_context_")
"""Annotations of the servers in the samples; the outermost are their steps."""


def step_windows(events: list[Event], work: list[Event]) -> list[tuple[str, int, int]]:
    named = [e for e in events if e.kind in ("annotation", "operator") and re.match(r"ProfilerStep#\d+", e.name)]
    threads: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in named:
        threads[event.thread].append(event)
    steps = max(threads.values(), key=len, default=[])
    served = [] if steps else sorted((e for e in events if SERVED.match(e.name)), key=lambda e: (e.start, -e.end))
    if steps:
        host = [(re.match(r"ProfilerStep#(\d+)", s.name)[1], s.start, s.end) for s in steps]  # type: ignore[index]
    elif served:
        outer = [e for e in served if not any(o.start <= e.start and e.end <= o.end for o in served if o is not e)]
        steps, host = outer, [(str(number), s.start, s.end) for number, s in enumerate(outer, 1)]
    else:
        base = [e for e in events if e.kind == "operator"] or [e for e in events if e.kind in ("annotation", "runtime")]
        base = base or work or events
        launches = [e.launch for e in work if e.launch is not None]
        begun = [*base, *launches] if launches else [*base, *work]
        host = [("0", min(e.start for e in begun), max(e.end for e in [*base, *launches]))]
    own: list[list[Event]] = [[] for _ in host]
    unmatched = []
    for event in work:
        mine = -1
        for i, (_, start, end) in enumerate(host):
            if event.launch is not None and start <= event.launch.start and event.launch.end <= end:
                mine = i
        (own[mine] if mine >= 0 else unmatched).append(event)
    outlast = [] if steps else [e.end for e in work]
    if not any(own):
        return [(label, start, max([end, *outlast])) for label, start, end in host]

    def number(e: Event) -> int:
        return int(e.args.get("correlation", 0))

    first = min(number(e) for mine in own for e in mine)
    begin, end = host[0][1], max([host[0][2], *(e.end for e in own[0])])
    previous = begin
    for e in unmatched:
        follows = any(mine.thread == e.thread and mine.start <= e.start for mine in own[0])
        earlier = number(e) < first and not follows if e.launch is None else e.launch.start < begin
        if earlier and e.start < end:
            previous = max(previous, min(e.end, end))
    found = []
    for (label, start, end), mine in zip(host, own, strict=True):
        start = max(previous, start)
        end = max([end, start, *(e.end for e in mine), *outlast])
        found.append((label, start, end))
        previous = end
    if len(found) > 1:
        last = max(i for i, mine in enumerate(own) if mine)
        if last > 0 and 4 * len(own[last - 1]) > 5 * len(own[last]):
            last -= 1
        found = found[: last + 1]
    return found


def _steps(events: list[Event], work: list[Event], collective: set[int]) -> dict[str, Counts]:
    classes: dict[str, list[tuple[int, int]]] = {name: [] for name in CATEGORIES}
    calls = [e for e in events if e.kind in ("operator", "annotation") and COLLECTIVE_OP.match(e.name)]
    backend = ("gloo:",) if collective else ("gloo:", "nccl:")
    communicating = [e for e in calls if e.name.startswith(backend)] or ([] if collective else calls)
    classes["communication"] += [(e.start, e.end) for e in communicating]
    for e in events:
        category = None
        if e.kind in WORK:
            category = "communication" if id(e) in collective else e.kind
        elif e.kind == "runtime":
            category = "runtime"
        elif e.kind in ("operator", "annotation") and not e.name.startswith("ProfilerStep#"):
            loader = e.name.startswith("enumerate(DataPipe)#") or (
                e.name.startswith("enumerate(DataLoader)#") and e.name.endswith(".__next__")
            )
            category = "dataloader" if loader else "cpu"
        if category:
            classes[category].append((e.start, e.end))
    if not classes["kernel"]:
        classes["host computes"] = _host_computation([e for e in events if e.kind == "operator"], calls)
    pieces = sweep(classes)
    ends = [high for _, high, _ in pieces]
    found: dict[str, Counts] = {}
    for label, start, end in step_windows(events, work):
        parts = dict.fromkeys(CATEGORIES, 0)
        for low, high, present in pieces[bisect_right(ends, start) :]:
            if low >= end:
                break
            present = present - {"communication"} if "host computes" in present else present
            parts[next(c for c in CATEGORIES if c in present)] += min(high, end) - max(low, start)
        total = end - start
        row = {f"{c}_ns": v for c, v in parts.items()}
        found[label] = {**row, "other_ns": total - sum(parts.values()), "total_ns": total}
    return found


def _host_computation(operators: list[Event], calls: list[Event]) -> list[tuple[int, int]]:
    """Where a thread is in an operator, not inside of a collective and not in a call of one."""
    found = []
    for thread in {e.thread for e in operators}:
        talking = [e for e in calls if e.thread == thread]
        around = sweep({"any": [(e.start, e.end) for e in talking]})
        joined: list[list[int]] = []
        for start, end, _ in around:
            if joined and joined[-1][1] == start:
                joined[-1][1] = end
            else:
                joined.append([start, end])

        def talks(e: Event, joined: list[list[int]] = joined) -> bool:
            at = bisect_right(joined, e.start, key=lambda pair: pair[0]) - 1
            return at >= 0 and e.end <= joined[at][1]

        own = [
            (e.start, e.end)
            for e in operators
            if e.thread == thread and not COLLECTIVE_OP.match(e.name) and not talks(e)
        ]
        held_up = [(e.start, e.end) for e in talking if not e.name.startswith("gloo:")]
        pieces = sweep({"computes": own, "held up": held_up})
        found += [(start, end) for start, end, present in pieces if present == {"computes"}]
    return found


def _operators(operators: list[Event], work: list[Event]) -> dict[str, Counts]:
    keys = ("calls", "host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns")
    found: dict[str, Counts] = defaultdict(lambda: dict.fromkeys(keys, 0))
    for operator in operators:
        row = found[operator.name]
        row["calls"] += 1
        row["host_self_ns"] += operator.dur - operator.covered
        if not any(e is not operator and e.name == operator.name for e in operator.chain()):
            row["host_total_ns"] += operator.dur
    for event in work:
        if event.operator is None:
            found[NO_OPERATOR]["device_self_ns"] += event.dur
            found[NO_OPERATOR]["device_total_ns"] += event.dur
            continue
        found[event.operator.name]["device_self_ns"] += event.dur
        for name in {e.name for e in event.operator.chain()}:
            found[name]["device_total_ns"] += event.dur
    if not found[NO_OPERATOR]["device_self_ns"]:
        del found[NO_OPERATOR]
    return dict(found)


def percentile(ordered: list[int], share: Fraction) -> Fraction:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _kernels(kernels: list[Event]) -> dict[str, Counts]:
    groups: dict[str, list[int]] = defaultdict(list)
    for event in kernels:
        groups[event.name].append(event.dur)
    return {
        name: {
            "calls": len(durations),
            "total_ns": sum(durations),
            "mean_ns": Fraction(sum(durations), len(durations)),
            "min_ns": min(durations),
            "max_ns": max(durations),
            "p50_ns": percentile(sorted(durations), Fraction(1, 2)),
            "p99_ns": percentile(sorted(durations), Fraction(99, 100)),
        }
        for name, durations in groups.items()
    }


@dataclass
class Node:
    """What the autograd engine runs for one node of its graph."""

    call: Event
    label: str
    function: Event
    outer: Node | None
    forward: Event | None = None
    inside: int = 0

    @property
    def adds(self) -> bool:
        return self.label == "AccumulateGrad"

    def is_own(self, source: Event, communicates: bool) -> bool:
        return self.function.start <= source.start < self.function.end and not communicates


def _nodes(operators: list[Event]) -> dict[int, Node]:
    """The innermost backward operator that each operator is or stands in."""
    found: dict[int, Node] = {}
    named: set[int] = set()
    before: dict[Any, Node] = {}
    every = []
    for operator in operators:
        outer = found.get(id(operator.above))
        label = operator.name.removeprefix("autograd::engine::evaluate_function: ").removeprefix("torch::autograd::")
        is_named = label != operator.name or re.match(r"\w+Backward\d*$", label) is not None
        node = outer
        if is_named or (operator.forward and id(operator.above) not in named):
            if outer is None or outer.label != label:
                node = Node(operator, label, operator, outer)
                every.append(node)
                if outer is not None:
                    outer.inside += operator.dur
            elif outer.function is outer.call:
                outer.function = operator
        if is_named or id(operator.above) in named:
            named.add(id(operator))
        if node is not None:
            found[id(operator)] = node
            node.forward = node.forward or operator.forward
    for node in every:
        key = (node.call.thread, id(node.outer))
        if not node.adds:
            before[key] = node
        elif node.forward is None and key in before:
            node.forward = before[key].forward
    for node in every:
        if node.forward is None and node.outer is not None:
            node.forward = node.outer.forward
    return found


def _modules(
    modules: list[Event], operators: list[Event], work: list[Event], collective: set[int]
) -> dict[str, Counts]:
    """By name and number of the module."""

    def key(module: Event) -> tuple[str, Any]:
        return module.name.removeprefix("nn.Module: ").removeprefix("[pl][module]"), module.args.get("Python module id")

    columns = (
        "calls", "host_self_ns", "host_total_ns", "device_self_ns", "device_total_ns", "backward_device_self_ns",
        "backward_device_total_ns", "backward_host_total_ns", "operators",
    )  # fmt: skip
    found: dict[Any, Counts] = defaultdict(lambda: dict.fromkeys(columns, 0))
    for module in modules:
        row = found[key(module)]
        row["calls"] += 1
        row["host_self_ns"] += module.dur - module.covered
        if not any(e is not module and key(e) == key(module) for e in module.chain()):
            row["host_total_ns"] += module.dur

    def add(owner: Event, prefix: str, value: int) -> None:
        if prefix != "backward_host":
            found[key(owner)][f"{prefix}_self_ns"] += value
        for name in {key(e) for e in owner.chain()}:
            found[name][f"{prefix}_total_ns"] += value

    for operator in operators:
        if operator.parent is not None and operator.parent.kind == "module":
            found[key(operator.parent)]["operators"] += 1
    at_start = dict(zip(map(id, operators), open_at(modules, operators), strict=True))
    nodes = _nodes(operators)
    launches = [e.launch or e.operator for e in work]
    sources = [s for s in launches if s is not None]
    around = dict(zip(map(id, sources), open_at(modules, sources), strict=True))
    for event, source in zip(work, launches, strict=True):
        if source is None:
            continue
        owner = around[id(source)]
        if owner is not None:
            add(owner, "device", event.dur)
            continue
        node = nodes.get(id(event.operator))
        if node is None or node.forward is None or (node.adds and not node.is_own(source, id(event) in collective)):
            continue
        if (forward_owner := at_start[id(node.forward)]) is not None:
            add(forward_owner, "backward_device", event.dur)
    for node in {id(node): node for node in nodes.values()}.values():
        spent = node.function.dur if node.adds else node.call.dur - node.inside
        if node.forward and at_start[id(node.call)] is None and (owner := at_start[id(node.forward)]) is not None:
            add(owner, "backward_host", spent)
    # One row a module: names carry the number in modern traces; equal labels would be two rows.
    return {f"{name}|{number}": row for (name, number), row in found.items()}
