"""Exit codes of ``torch-trace``.

OK: a report was printed. LIMIT: a value exceeds a limit, or a part failed (``doctor``). The three other codes mean
wrong usage, no readable profile, and a bug in this package.
"""

OK, GATE_FAILED, USAGE, NOTHING, BUG = 0, 1, 2, 3, 70
PART_FAILED = GATE_FAILED
