"""Processes of our own do without pandas: they hand over Arrow and text."""

from __future__ import annotations

import sys


class _NoPandas:
    """Has every import of pandas fail."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("This process has no use for pandas.", name=name)


def leave_out_pandas() -> None:
    """Keeps pandas out of this process for good.

    pyarrow imports it, where it is installed, as soon as the first array is made: 0.3 s and 50 MB for nothing. It takes the
    failure for a machine without pandas. Only for a worker and for the command itself: whoever uses the Python API may
    want pandas next.
    """
    sys.meta_path.insert(0, _NoPandas)
