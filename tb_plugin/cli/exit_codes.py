"""Exit codes of ``torch-trace``.

Something was reported, a number is beyond a limit (or a part failed, which ``doctor`` looks for), wrong use, nothing could
be read, an error of ours.
"""

OK, GATE_FAILED, USAGE, NOTHING, BUG = 0, 1, 2, 3, 70
PART_FAILED = GATE_FAILED
