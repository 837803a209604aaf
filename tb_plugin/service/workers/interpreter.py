"""Import path and environment of worker processes.

Log directories are untrusted. A worker must never import a ``json.py`` from a log directory or from the current
directory. Its import path therefore contains first the standard library, then only the folders of this package and
its dependencies.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from tb_plugin.errors import UserError
from tb_plugin.extensions import configured_names

# Packages that a worker imports besides the standard library.
PACKAGES = ("tb_plugin", "numpy", "pyarrow", "msgspec", "isal", "fsspec")
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; from tb_plugin.service.workers.worker_main import main; "
    "main(int(sys.argv[1]))"
)
# Workers run in parallel, so each library uses one thread per worker.
_SINGLE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def command(memo_bytes: int) -> list[str]:
    """Returns the command line of a worker process.

    ``memo_bytes`` limits the cache of the worker. The flag ``-P`` removes the current directory from the import
    path.
    """
    return [sys.executable, "-P", "-c", _START, str(memo_bytes), *import_path()]


def environment() -> dict[str, str]:
    """Returns the environment of a worker process. Variables that extend the import path are removed."""
    return {**{name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, **_SINGLE}


def import_path() -> list[str]:
    """Returns absolute folders: the standard library, then the folders of ``PACKAGES`` in the order of
    ``sys.path``.

    The current directory and the folder of the running script come last. They are included only if they contain
    this package or a configured extension (``registry``).
    """
    standard, suspect = _standard(), _suspect()
    trusted = [entry for entry in sys.path if Path(entry).is_absolute() and _real(entry) not in suspect]
    needed = {folder for name in PACKAGES if (folder := _folder(name, trusted))}
    home = str(Path(__file__).absolute().parents[3])
    ordered = [entry for entry in trusted if entry in needed]
    return list(dict.fromkeys([*standard, *ordered, *sorted(needed), home, *_extensions()]))


def _extensions() -> list[str]:
    if not (names := configured_names()):
        return []
    from tb_plugin import registry

    with suppress(UserError):  # a request that needs this extension reports the import error
        registry.readers()
    packages = [sys.modules.get(name.partition(".")[0]) for name in names]
    return [str(Path(place).absolute().parent) for package in packages if (place := _place(package))]


def _place(module: ModuleType | None) -> str:
    return next(iter(getattr(module, "__path__", [])), getattr(module, "__file__", None) or "")


def _standard() -> list[str]:
    known = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sysconfig.get_config_var("DESTSHARED")}
    zipped = f"python{sys.version_info.major}{sys.version_info.minor}.zip"
    found = [
        entry for entry in sys.path if entry in known or (Path(entry).name == zipped and Path(entry).is_absolute())
    ]
    return found or sorted(filter(None, known))


def _suspect() -> set[str]:
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return {_real(""), *([_real(str(Path(script).parent))] if script else [])}


def _real(entry: str) -> str:
    return os.path.realpath(entry)


def _folder(package: str, path: list[str]) -> str:
    spec = PathFinder.find_spec(package, path)
    if spec is None or spec.origin is None:
        return ""
    origin = Path(spec.origin)
    return str(origin.parent.parent if origin.name.startswith("__init__.") else origin.parent)
