"""Exit codes of ``torch-trace``.

OK: something was reported. LIMIT: a number is beyond a limit, or (``doctor``) a part failed. Then wrong use, nothing
readable, and a bug of this package.
"""

OK, GATE_FAILED, USAGE, NOTHING, BUG = 0, 1, 2, 3, 70
PART_FAILED = GATE_FAILED
