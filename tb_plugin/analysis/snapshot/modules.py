"""Modules that allocated memory, derived from stacks."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from tb_plugin.analysis.code_owner import BUILT_IN, STANDARD, package_of
from tb_plugin.analysis.range_patterns import module_label
from tb_plugin.analysis.snapshot.labels import stack_words
from tb_plugin.lib.model_cache import cached_by_argument
from tb_plugin.model.snapshot.table import Snapshot


@cached_by_argument
def modules_of_stacks(snapshot: Snapshot) -> pa.Array:
    """Returns the innermost module of each stack, if possible of user code; null if unknown. The last entry is for -1."""
    stacks, patterns = snapshot.stacks, snapshot.recorder.stages
    frames = _Frames(snapshot, patterns.forward, patterns.setup)
    found = [
        frames.module(stacks.frame[first:end].tolist())
        for first, end in zip(stacks.first[:-1].tolist(), stacks.first[1:].tolist(), strict=True)
    ]
    return pa.array([*found, None], pa.large_string())


class _Frames:
    def __init__(self, snapshot: Snapshot, call: str, setup: str) -> None:
        words = stack_words(snapshot)
        texts = words.frame_text
        self._text = texts
        self._file = snapshot.strings.take(snapshot.stacks.file).to_pylist()
        self._line = snapshot.stacks.line.tolist()
        self._name = [name or "?" for name in snapshot.strings.take(snapshot.stacks.name).to_pylist()]
        self._calls = [bool(call) and re.search(call, text) is not None for text in texts]
        self._makes = [bool(setup) and re.search(setup, text) is not None for text in texts]
        self._counts = [calls or own for calls, own in zip(self._calls, words.is_python.tolist(), strict=True)]
        framework = (BUILT_IN, STANDARD, *snapshot.recorder.packages)
        self._is_own = [package_of(text)[0] not in framework for text in texts]

    def module(self, every: Sequence[int]) -> str | None:
        nearest = None
        # Interpreter frames are between the frames of a caller and its callee.
        stack = [frame for frame in every if self._counts[frame]]
        for place in range(1, len(stack)):
            inner = stack[place - 1]
            # A call may have several frames: the innermost one calls the forward.
            if not self._calls[stack[place]] or self._calls[inner] or self._makes[inner]:
                continue
            if self._is_own[inner]:
                return self._module_name(stack, place)
            nearest = nearest or place
        return None if nearest is None else self._module_name(stack, nearest)

    def _module_name(self, stack: Sequence[int], place: int) -> str:
        inner, outer = stack[place - 1], place
        while outer < len(stack) and self._calls[stack[outer]]:
            name = self._name[stack[outer]]
            # Names recorded by the profiler include the instance.
            if module_label(name) != name:
                return module_label(name)
            outer += 1
        named = f"{self._file[inner]}: {self._name[inner]}"
        if "." in self._name[inner] or outer == len(stack):
            return named
        # Forwards of several classes share a name: the call site distinguishes them.
        caller = stack[outer]
        file = re.split(r"[/\\]", self._file[caller] or "?")[-1]
        return f"{named}, called at {file}({self._line[caller]})"
