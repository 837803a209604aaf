"""Block against importing pandas in worker processes and on the command line."""

from __future__ import annotations

import sys


class _NoPandas:
    """Import hook that makes every import of pandas fail."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is blocked in this process.", name=name)


def leave_out_pandas() -> None:
    """Blocks pandas in this process permanently.

    If pandas is installed, pyarrow imports it with its first array. This costs 0.3 s and 50 MB. Call this function
    only in worker processes and on the command line. Users of the Python API may need pandas.
    """
    sys.meta_path.insert(0, _NoPandas)
