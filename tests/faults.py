"""The simulator of faulty trainings in samples/, importable by tests."""

from collections.abc import Callable
from typing import Any

from tests.synthetic import loaded

_simulator = loaded("faults")

FAULTS: dict[str, str] = _simulator.FAULTS
ALSO: dict[str, tuple[str, ...]] = _simulator.ALSO
COSTLESS: frozenset[str] = _simulator.COSTLESS
Config = _simulator.Config
Training = _simulator.Training
run: Callable[[Any], Any] = _simulator.run
write = _simulator.write
main = _simulator.main
