"""Call stacks from ``python_backtrace``: one line per frame, outermost first."""

from __future__ import annotations

import re

_FRAME = re.compile(r"^(?:Python Backtrace: ?)?(?P<file>.*?) , line (?P<line>\d+), in (?P<function>.*)$")
_MAX_CHARS = 1 << 16  # characters of a backtrace


def stack_of(backtrace: str) -> str:
    """Returns frames as ``file(line): function``, innermost first, with ``;`` between; "" for none.

    Lines with a scope are skipped: scopes are separate events.
    """
    found = (_FRAME.match(line) for line in backtrace[:_MAX_CHARS].splitlines())
    frames = [f"{frame['file'].strip()}({frame['line']}): {frame['function'].strip()}" for frame in found if frame]
    return ";".join(frame.replace(";", ",") for frame in reversed(frames))
