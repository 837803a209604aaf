"""The trace generator of samples/, importable by tests: samples/ is data and no package, so it is loaded by path."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def loaded(name: str) -> ModuleType:
    """One generator of samples/."""
    path = Path(__file__).resolve().parent.parent / "samples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"samples_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no generator at {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


_generator = loaded("synthetic")

CELL_NS: int = _generator.CELL_NS
CLASSES: tuple[str, ...] = _generator.CLASSES
NO_OPERATOR: str = _generator.NO_OPERATOR
Config = _generator.Config
Worker = _generator.Worker
generate = _generator.generate
truth_document = _generator.truth_document
write = _generator.write
main = _generator.main
