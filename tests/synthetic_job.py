"""The generator of jobs of many ranks in samples/, importable by tests."""

from typing import Any

from tests.synthetic import loaded

_generator: Any = loaded("jobs")

Job: Any = _generator.Job
Straggler: Any = _generator.Straggler
Plan: Any = _generator.Plan
plan: Any = _generator.plan
calls: Any = _generator.calls
text_of: Any = _generator.text_of
write: Any = _generator.write
truth: Any = _generator.truth
main: Any = _generator.main
