"""Compute functions of pyarrow, created at first use."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

_NAME = "pyarrow.compute"
_DOCS = "pyarrow.vendored.docscrape"
_KEYWORDS = {"and_": "and", "or_": "or"}
# A function that pyarrow.compute reads from itself while it is imported.
_EARLY = "utf8_zero_fill"


def create_arrow_functions_lazily() -> None:
    """Changes pyarrow.compute of this process: its 300 functions are created at first use, and have no docstrings.

    pyarrow writes a docstring for each of them at import, which takes longer than the import of numpy. Only for
    workers and the command line.
    """
    sys.meta_path.insert(0, _Finder)


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: object = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == _NAME else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
        return spec


class _Loader:
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        before = dict(vars(module))
        try:
            self._import(module)
            _complete(module)
        except Exception:  # pyarrow's own code has changed
            vars(module).clear()
            vars(module).update(before)
            self._loader.exec_module(module)

    def _import(self, module: ModuleType) -> None:
        core = import_module("pyarrow._compute")
        registry, docs = core.function_registry, sys.modules.get(_DOCS)
        stub: Any = ModuleType(_DOCS)
        stub.NumpyDocString = lambda text: {"Parameters": []}
        vars(core)["function_registry"] = lambda: SimpleNamespace(
            list_functions=lambda: [name for name in registry().list_functions() if name == _EARLY],
            get_function=registry().get_function,
        )
        sys.modules[_DOCS] = stub
        try:
            self._loader.exec_module(module)
        finally:
            vars(core)["function_registry"] = registry
            if docs is None:
                del sys.modules[_DOCS]
            else:
                sys.modules[_DOCS] = docs
        vars(module)["function_registry"] = registry


def _complete(module: ModuleType) -> None:
    functions = frozenset(vars(module)["function_registry"]().list_functions())
    own = [value for value in vars(module).values() if isinstance(value, FunctionType)]
    # The module's own code finds only what is in its namespace.
    used = {name for one in own for name in one.__code__.co_names}
    for name in functions & used - vars(module).keys():
        _function(module, functions, name)
    vars(module)["__getattr__"] = lambda name: _function(module, functions, name)


def _function(module: Any, functions: frozenset[str], name: str) -> Any:
    if _KEYWORDS.get(name, name) not in functions:
        raise AttributeError(f"module {_NAME!r} has no attribute {name!r}", name=name, obj=module)
    function = module.get_function(_KEYWORDS.get(name, name))
    made = module._make_generic_wrapper(name, function, module._get_options_class(function), function.arity)
    setattr(module, name, made)
    return made
