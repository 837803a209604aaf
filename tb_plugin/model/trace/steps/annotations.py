"""Steps from annotations of inference servers.

All regular expressions run in RE2 (pyarrow), which takes linear time. Each distinct name is checked once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin import settings
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.model.trace.recorder import StepPattern
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.served_work import MODES, Mode, Served
from tb_plugin.model.trace.steps.windows import ANNOTATION, DeviceWork, find_steps
from tb_plugin.model.trace.table import Steps

_COUNTS = (
    "batch",
    "tokens",
    "context",
    "prefill_requests",
    "prefill_tokens",
    "prefill_context",
    "decode_requests",
    "decode_tokens",
    "decode_context",
    "step",
)
# Allowed names of groups in a pattern.
GROUPS = ("mode", *_COUNTS)
_NUMBER = r"^\d{1,15}$"
_GROUP_NAME = re.compile(r"\(\?P?<\w*>")
# Maximum number of characters in a user's pattern.
LONGEST = 1000
# Maximum nesting of annotations that contain iterations.
_DEEPEST = 8


class Marks(msgspec.Struct, frozen=True, eq=False):
    """Annotations of server iterations: their times, and the data that their names contain."""

    track: Int64
    start: Int64
    end: Int64
    pattern: Int64
    """Index of the first pattern that matches the annotation's name."""
    served: Served

    def take(self, at: npt.NDArray[np.intp]) -> Marks:
        return Marks(self.track[at], self.start[at], self.end[at], self.pattern[at], self.served.take(at))


@cache
def _any_of(patterns: tuple[StepPattern, ...]) -> str:
    return "|".join(f"(?:{_GROUP_NAME.sub('(', pattern.regex)})" for pattern in patterns)


def marking(names: pa.Array, patterns: tuple[StepPattern, ...]) -> Bool:
    if not patterns or not len(names):
        return np.zeros(len(names), np.bool_)
    found: Bool = pc.match_substring_regex(names, _any_of(patterns)).to_numpy(zero_copy_only=False)
    return found


def match_annotations(names: pa.Array, patterns: tuple[StepPattern, ...]) -> tuple[Int64, Served]:
    """Returns the first pattern that matches each name, and the data of all matching patterns; earlier patterns win."""
    first = np.full(len(names), MISSING, np.int64)
    counts = {key: first.copy() for key in _COUNTS}
    mode = np.zeros(len(names), np.uint8)
    speculative = np.zeros(len(names), np.bool_)
    for position, pattern in enumerate(patterns):
        found = pc.extract_regex(names, pattern.regex)
        hit = found.is_valid().to_numpy(zero_copy_only=False)
        if not hit.any():
            continue
        groups = dict(zip((each.name for each in found.type), found.flatten(), strict=True))
        said, several = _modes(groups, pattern, hit)
        mode = np.where((mode == Mode.UNKNOWN) & hit, said, mode).astype(np.uint8)
        speculative |= several
        for key in groups.keys() & counts.keys():
            counts[key] = np.where((counts[key] == MISSING) & hit, _numbers(groups[key]), counts[key])
        first = np.where((first == MISSING) & hit, position, first)
    return first, _served(mode, counts, speculative)


def _modes(groups: dict[str, pa.Array], pattern: StepPattern, hit: Bool) -> tuple[npt.NDArray[np.uint8], Bool]:
    if "mode" not in groups:
        return np.full(len(hit), MODES.get(pattern.mode, Mode.UNKNOWN), np.uint8), np.zeros(len(hit), np.bool_)
    words = pc.dictionary_encode(pc.fill_null(groups["mode"], ""))
    means = dict(pattern.modes)
    texts = words.dictionary.to_pylist()
    modes = [
        MODES.get(means.get(text, "" if means else text.lower()), MODES.get(pattern.mode, Mode.UNKNOWN))
        for text in texts
    ]
    at = words.indices.to_numpy(zero_copy_only=False)
    return (
        np.array(modes, np.uint8)[at],
        np.array([text in pattern.speculative for text in texts], np.bool_)[at] & hit,
    )


def _numbers(texts: pa.Array) -> Int64:
    is_number = pc.match_substring_regex(texts, _NUMBER)
    numbers: Int64 = pc.fill_null(pc.if_else(is_number, texts, None).cast(pa.int64()), MISSING).to_numpy(
        zero_copy_only=False
    )
    return numbers


def _served(mode: npt.NDArray[np.uint8], counts: dict[str, Int64], speculative: Bool) -> Served:
    filling, decoding = counts["prefill_requests"], counts["decode_requests"]
    stated = (filling != MISSING) & (decoding != MISSING)
    by_counts = np.select(
        [(filling > 0) & (decoding > 0), filling > 0, decoding > 0], [Mode.MIXED, Mode.PREFILL, Mode.DECODE], Mode.IDLE
    )
    mode = np.where((mode == Mode.UNKNOWN) & stated, by_counts, mode).astype(np.uint8)
    batch = _known(counts["batch"], np.where(stated, filling + decoding, MISSING))
    batch = np.where((batch == MISSING) & (mode == Mode.IDLE), 0, batch)
    no_decoding = (mode == Mode.PREFILL) | (mode == Mode.IDLE)
    decoding = _known(decoding, np.select([mode == Mode.DECODE, no_decoding], [batch, 0], MISSING))
    tokens = _known(counts["tokens"], _sum(counts["prefill_tokens"], counts["decode_tokens"]))
    decode_tokens = _known(counts["decode_tokens"], np.select([mode == Mode.DECODE, no_decoding], [tokens, 0], MISSING))
    several = speculative | ((decode_tokens != MISSING) & (decode_tokens != decoding))
    generated = np.where(several | (mode == Mode.DENOISING), MISSING, decoding)
    tokens = _known(tokens, np.where(mode == Mode.DECODE, generated, MISSING))
    decode_tokens = _known(decode_tokens, np.where(mode == Mode.DECODE, generated, MISSING))
    context = _known(counts["context"], _sum(counts["prefill_context"], counts["decode_context"], either=True))
    return Served(mode, batch, decoding, tokens, decode_tokens, context, generated)


def _known(value: Int64, otherwise: Int64) -> Int64:
    return np.where(value != MISSING, value, otherwise)


def _sum(first: Int64, second: Int64, *, either: bool = False) -> Int64:
    both = (first != MISSING) & (second != MISSING)
    return np.where(both, first + second, np.maximum(first, second) if either else MISSING)


def outermost(marks: Marks, kept: Bool) -> Bool:
    """Returns the marks in ``kept`` that no other encloses. All are of one thread, by start, longest first."""
    before = np.maximum.accumulate(np.where(kept, marks.end, np.iinfo(np.int64).min))
    earlier = np.concatenate(([np.iinfo(np.int64).min], before[:-1]))
    return kept & (marks.start >= earlier)


def iterations(marks: Marks) -> Marks:
    """Returns the iterations of the thread that has the most marks, sorted by time. If a mark lacks some data, the
    data of marks nested in it is used.

    A mark that contains several marks with the same pattern is not an iteration: either it is a loop, or its end
    was not recorded.
    """
    if not len(marks.start):
        return marks
    tracks, number = np.unique(marks.track, return_inverse=True)
    marks = marks.take(np.flatnonzero(number == np.bincount(number, minlength=len(tracks)).argmax()))
    marks = marks.take(np.lexsort((marks.pattern, -marks.end, marks.start)))
    kept = np.ones(len(marks.start), np.bool_)
    for _ in range(_DEEPEST):
        outer = outermost(marks, kept)
        owner = np.cumsum(outer) - 1
        places = np.flatnonzero(outer)
        alike = kept & ~outer & (owner >= 0)
        alike &= marks.pattern == marks.pattern[places[np.maximum(owner, 0)]]
        loops = np.bincount(owner[alike], minlength=len(places)) > 1
        if not loops.any():
            break
        kept[places[loops]] = False
    return replace(marks.take(places), served=_with_inner(marks.served, places, owner, kept & ~outer & (owner >= 0)))


def _with_inner(served: Served, places: npt.NDArray[np.intp], owner: Int64, inner: Bool) -> Served:
    columns = {}
    for field in Served.__struct_fields__:
        values = getattr(served, field)
        silent = Mode.UNKNOWN if field == "mode" else MISSING
        own = values[places].copy()
        says = np.flatnonzero(inner & (values != silent))
        whose, first = np.unique(owner[says], return_index=True)
        mute = own[whose] == silent
        own[whose[mute]] = values[says[first[mute]]]
        columns[field] = own
    return Served(**columns)


def inside(marks: Marks, start: Int64, end: Int64) -> Served:
    """Returns the data of the single iteration inside each time range; otherwise the data is unknown."""
    if not len(marks.start) or not len(start):
        return Served()
    low, high = np.searchsorted(marks.start, start), np.searchsorted(marks.start, end)
    alone = (high - low == 1) & (marks.end[np.minimum(low, len(marks.end) - 1)] <= end)
    if not alone.any():
        return Served()
    at = np.minimum(low, len(marks.start) - 1)
    columns = {
        field: np.where(alone, getattr(marks.served, field)[at], Mode.UNKNOWN if field == "mode" else MISSING).astype(
            getattr(marks.served, field).dtype
        )
        for field in Served.__struct_fields__
    }
    return Served(**columns)


def steps_of_marks(marks: Marks, work: DeviceWork, patterns: Sequence[StepPattern]) -> Steps:
    """Returns one step per iteration, numbered by time, with windows like those of profiler steps."""
    if not len(marks.start):
        return Steps()
    labels = [str(number + 1) for number in range(len(marks.start))]
    whose = patterns[int(np.bincount(marks.pattern).argmax())].framework
    return find_steps(labels, marks.start, marks.end, work, found=ANNOTATION, framework=whose, served=marks.served)


def with_own(patterns: tuple[StepPattern, ...], own: str) -> tuple[StepPattern, ...]:
    """Returns the patterns, preceded by the user's pattern unless it is invalid (see ``own_problem``)."""
    return (StepPattern(settings.STEPS.name, own), *patterns) if own and not own_problem(own) else patterns


def own_problem(own: str) -> str:
    """Returns the reason why a user's pattern is invalid; "" if it is valid."""
    if len(own) > LONGEST:
        return f"it is longer than {LONGEST:,} characters"
    try:
        nothing = pa.array([""], pa.large_string())
        found = pc.extract_regex(nothing, own)
        marking(nothing, (StepPattern("", own),) * 2)  # it must also work in combination with other patterns
    except pa.ArrowInvalid as error:
        return re.sub(r"\s+", " ", str(error))[:200]
    unknown = [each.name for each in found.type if each.name not in GROUPS]
    if unknown:
        return f"the group {unknown[0][:40]} is unknown; allowed are {', '.join(GROUPS)}"
    return "it matches every name" if found.is_valid()[0].as_py() else ""
