"""``python_backtrace`` as a call stack: MegEngine writes a line for each frame, the outermost first."""

from __future__ import annotations

import re

_FRAME = re.compile(r"^(?:Python Backtrace: ?)?(?P<file>.*?) , line (?P<line>\d+), in (?P<function>.*)$")
_LONGEST = 1 << 16
"""Characters of a backtrace that are looked at."""


def stack_of(backtrace: str) -> str:
    """Returns the frames as ``file(line): function``, the innermost first, with ``;`` between; "" where there are none.

    Lines that name a scope are left out: scopes are events of their own.
    """
    found = (_FRAME.match(line) for line in backtrace[:_LONGEST].splitlines())
    frames = [f"{frame['file'].strip()}({frame['line']}): {frame['function'].strip()}" for frame in found if frame]
    return ";".join(frame.replace(";", ",") for frame in reversed(frames))
