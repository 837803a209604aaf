"""Import block for pandas in worker processes and the command line."""

from __future__ import annotations

import sys


class _NoPandas:
    """Makes every import of pandas fail."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("This process has no use for pandas.", name=name)


def leave_out_pandas() -> None:
    """Blocks pandas in this process permanently.

    pyarrow imports an installed pandas with its first array, which costs 0.3 s and 50 MB. Call this only in worker
    processes and the command line: users of the Python API may need pandas.
    """
    sys.meta_path.insert(0, _NoPandas)
