"""The simulator of faulty trainings in samples/, importable by tests; samples/ is no package, so it is loaded by path."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def package(name: str) -> ModuleType:
    """One folder of samples/ with a simulator in it."""
    folder = Path(__file__).resolve().parent.parent / "samples" / name
    name = f"samples_{name}"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no simulator at {folder}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its own modules and dataclasses look it up by name
    spec.loader.exec_module(module)
    return module


_simulator = package("faults")

FAULTS: dict[str, str] = _simulator.FAULTS
ALSO: dict[str, tuple[str, ...]] = _simulator.ALSO
COSTLESS: frozenset[str] = _simulator.COSTLESS
Config = _simulator.Config
Training = _simulator.Training
run: Callable[[Any], Any] = _simulator.run
write = _simulator.write
main = _simulator.main
