"""The generator of Ascend's profiles of samples/, importable by tests as ``synthetic.py`` is."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def _load() -> ModuleType:
    path = Path(__file__).resolve().parent.parent / "samples" / "synthetic_ascend.py"
    spec = importlib.util.spec_from_file_location("samples_synthetic_ascend", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no generator at {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


generator = _load()
