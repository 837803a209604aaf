"""Training stages of a snapshot's blocks, from stacks and annotations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.memory_categories import Lives, When
from tb_plugin.analysis.range_patterns import OPTIMIZER
from tb_plugin.analysis.snapshot.device_levels import DeviceLevels
from tb_plugin.analysis.snapshot.labels import stack_words
from tb_plugin.analysis.snapshot.steps import marks_of
from tb_plugin.lib.arrays import Bool, Int8, Int64
from tb_plugin.lib.intervals import Ranges, contains, union
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import NEVER, Action, Snapshot, Stacks
from tb_plugin.model.trace.schema import MISSING

# The stack has no stage.
SILENT = -1
# The stack loads or moves a batch, which is never part of a stage.
DATA = int(max(When)) + 1


def tells_stages(device: DeviceLevels) -> bool:
    stacks = device.block("stack")
    stack_stages = _stages(device.snapshot)[stacks[(device.block("begin") != MISSING) & (stacks != MISSING)]]
    return bool(np.isin(stack_stages, (When.FORWARD, When.BACKWARD, When.STEP)).any())


@cached_by_argument
def _stages(snapshot: Snapshot) -> Int8:
    """Returns the stage of each stack: a ``When`` value, DATA or SILENT. The last entry is for index -1."""
    words, stacks, patterns = stack_words(snapshot), snapshot.stacks, snapshot.recorder.stages
    texts = pa.array(words.frame_text, pa.large_string())

    def first(pattern: str) -> Int64:
        """Returns the depth of the first matching frame of each stack, else the number of all frames."""
        hit = (
            pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
            if pattern
            else np.zeros(len(texts), np.bool_)
        )
        return _first(stacks, hit[stacks.frame] if len(hit) else hit)

    beyond = len(stacks.frame)
    forward, setup = first(patterns.forward), first(patterns.setup)
    python = words.is_python
    native = _first(stacks, python[stacks.frame] if len(python) else python) == beyond
    stack_stages = np.select(
        [
            first(patterns.clear) < beyond,
            first(patterns.step) < beyond,
            first(patterns.backward) < beyond,
            # If other threads run Python, a thread without Python is one of the autograd engine.
            native & ~native.all(),
            first(patterns.data) < beyond,
            forward < setup,
        ],
        [When.CLEAR, When.STEP, When.BACKWARD, When.BACKWARD, DATA, When.FORWARD],
        SILENT,
    )
    return np.append(stack_stages, SILENT).astype(np.int8)


def _first(stacks: Stacks, hit: Bool) -> Int64:
    """Returns the depth of the first matching frame of each stack, else the number of all frames."""
    at = np.append(np.where(hit, np.arange(len(hit)), len(hit)), len(hit))
    found = np.minimum.reduceat(at, stacks.first[:-1]) if len(stacks) else np.empty(0, np.int64)
    empty = stacks.first[1:] == stacks.first[:-1]
    found = np.where(empty | (found >= stacks.first[1:]), len(hit), found - stacks.first[:-1])
    return found.astype(np.int64)


def lives_of(device: DeviceLevels) -> Lives:
    """Returns the training stages in which each block of a device was allocated and released."""
    stack_stages = _stages(device.snapshot)
    begin, freed, stack = device.block("begin"), device.block("freed"), device.block("stack")
    action, own = device.action, device.snapshot.events.stack[device.events]
    event_stages = np.full(device.count, SILENT, np.int8)
    allocs = np.flatnonzero(action == Action.ALLOC)
    event_stages[allocs] = stack_stages[own[allocs]]
    # Annotations of optimizers take precedence over stacks, and apply to releases as well.
    for method, stage in (("step", When.STEP), ("zero_grad", When.CLEAR)):
        event_stages[contains(_calls(device.snapshot, method), device.time_ns)] = stage
    edges = _step_edges(device)
    # A stage lasts until another stage or a step starts. Only a forward pass continues through stacks without a stage.
    hard = np.isin(event_stages, (When.FORWARD, When.BACKWARD, When.STEP, When.CLEAR))
    mark = np.where(hard, event_stages, SILENT).astype(np.int8)
    last = _before(hard, edges, mark)
    soft = (action == Action.ALLOC) & (event_stages == SILENT)
    opened = np.where(last == When.FORWARD, When.FORWARD, When.BETWEEN)
    at_alloc = np.where(hard, event_stages, np.where(event_stages == DATA, When.BETWEEN, opened)).astype(np.int8)
    state = _before(hard | soft, edges, at_alloc)
    previous = np.append(np.int8(When.BETWEEN), last[:-1])[: device.count]
    previous[edges[edges < device.count]] = When.BETWEEN
    turns = np.concatenate(([True], last[1:] != last[:-1]))[: device.count]
    passes = np.cumsum(hard & (event_stages == When.FORWARD) & (previous != When.FORWARD))
    run = np.cumsum(turns)

    # A release without its own stack is recorded with the stack of the allocation.
    ends = np.flatnonzero((freed != NEVER) & (freed != MISSING))
    at_free = state.copy()
    stated = own[freed[ends]]
    mine = (stated != MISSING) & (stated != stack[ends])
    by_stack = stack_stages[stated]
    chosen = mine & (by_stack > When.BETWEEN) & (by_stack < DATA)
    at_free[freed[ends[chosen]]] = by_stack[chosen]

    is_recorded = begin != MISSING
    # Remaining older blocks have the stack of their allocation, if it was recorded. Released older blocks have an
    # unknown owner.
    older = ~is_recorded & (freed == NEVER) & np.append(np.diff(device.snapshot.stacks.first) > 0, False)[stack]
    begins = np.full(len(begin), When.NEVER, np.int8)
    begins[is_recorded] = at_alloc[begin[is_recorded]]
    begins[older] = np.maximum(
        np.where(stack_stages[stack[older]] == DATA, When.BETWEEN, stack_stages[stack[older]]), When.BETWEEN
    )
    finish = np.full(len(begin), When.NEVER, np.int8)
    finish[ends] = at_free[freed[ends]]
    begin_pass, end_pass = np.zeros(len(begin), np.int64), np.zeros(len(begin), np.int64)
    begin_pass[is_recorded], end_pass[ends] = passes[begin[is_recorded]], passes[freed[ends]]
    whole = is_recorded & (freed != NEVER)
    same_run = np.zeros(len(begin), np.bool_)
    same_run[whole] = run[begin[whole]] == run[freed[whole]]
    in_operator = np.zeros(len(begin), np.bool_)
    in_operator[whole] = _is_released_first(begin[whole], freed[whole], begins[whole], allocs, own)
    return Lives(
        bytes=_comparable_bytes(device),
        begin=begins,
        end=finish,
        begin_pass=begin_pass,
        end_pass=end_pass,
        in_operator=in_operator,
        in_stage=whole & (begins == finish) & (begin_pass == end_pass) & (same_run | (begins != When.STEP)),
    )


def _before(marked: Bool, edges: Int64, value: Int8) -> Int8:
    """Returns the value at the last marked event of the step up to each event, else ``When.BETWEEN``."""
    at = np.where(marked, np.arange(len(marked)), -1)
    last = np.maximum.accumulate(at) if len(at) else at
    edge = np.concatenate(([-1], edges))[np.searchsorted(edges, np.arange(len(marked)), side="right")]
    return np.where((last < 0) | (last < edge), When.BETWEEN, np.append(value, 0)[last]).astype(np.int8)


def _calls(snapshot: Snapshot, method: str) -> Ranges:
    marks = snapshot.annotations
    is_method = snapshot.strings.where(lambda text: (found := OPTIMIZER.match(text)) is not None and found[1] == method)
    rows = np.flatnonzero(is_method[marks.name]) if len(marks.name) and snapshot.has_times else np.empty(0, np.int64)
    rows = rows[np.argsort(marks.time_ns[rows], kind="stable")]
    start = marks.is_start[rows] == 1
    paired = np.flatnonzero(start[:-1] & ~start[1:])
    return union(marks.time_ns[rows[paired]], marks.time_ns[rows[paired + 1]])


def _step_edges(device: DeviceLevels) -> Int64:
    marks = marks_of(device)
    return np.unique(np.concatenate((marks.first, marks.end[marks.is_ended])))


def _is_released_first(begin: Int64, freed: Int64, stage: Int8, allocs: Int64, stack: npt.NDArray[np.int32]) -> Bool:
    """Returns, for each block, whether it is released before another Python line allocates memory. In the backward
    pass, it must be released before any line allocates memory.

    Snapshots contain no operators. This rule approximates the temporary memory of an operator.
    """
    place = np.searchsorted(allocs, begin)
    other = np.append(stack[allocs[1:]] != stack[allocs[:-1]], True) if len(allocs) else np.empty(0, np.bool_)
    # Index of the next allocation with another stack.
    at = np.where(other, np.arange(len(allocs)), len(allocs))
    following = np.minimum.accumulate(at[::-1])[::-1] + 1
    nearest = np.where(stage == When.BACKWARD, place + 1, following[place])
    return freed < np.append(allocs, NEVER)[np.minimum(nearest, len(allocs))]


def _comparable_bytes(device: DeviceLevels) -> Int64:
    size, requested = device.block("size"), device.block("requested")
    grain = max(int(np.gcd.reduce(size)), 1) if len(size) else 1
    return np.where(requested > 0, -(-requested // grain) * grain, size)
