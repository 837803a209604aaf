"""The generators of samples/, importable by tests: samples/ is data and no package, so it is put on the path."""

import importlib
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent.parent / "samples"))


def loaded(name: str) -> Any:
    """One generator, a module or package in samples/."""
    return importlib.import_module(name)


_generator = loaded("gpu_training")

CELL_NS: int = _generator.CELL_NS
CLASSES: tuple[str, ...] = _generator.CLASSES
NO_OPERATOR: str = _generator.NO_OPERATOR
Config = _generator.Config
Worker = _generator.Worker
generate = _generator.generate
truth_document = _generator.truth_document
write = _generator.write
main = _generator.main
