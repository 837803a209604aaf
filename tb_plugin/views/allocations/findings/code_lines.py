"""Lines of code of stacks, numbered: several stacks may come from one line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from tb_plugin.analysis.snapshot.labels import stack_words
from tb_plugin.lib.model_cache import remembered
from tb_plugin.model.snapshot.table import Snapshot

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lines:
    """Distinct lines; the last one stands for stacks without any."""

    text: tuple[str, ...]
    number: Int64
    """By stack, and one more for -1."""

    def of(self, stack: npt.NDArray[np.integer]) -> Int64:
        """Returns the number of the line of each stack."""
        found: Int64 = self.number[stack]
        return found


@remembered
def line_numbers(snapshot: Snapshot) -> Lines:
    """Returns the lines of all stacks."""
    encoded = stack_words(snapshot).line.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    number = pc.fill_null(encoded.indices, len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
    return Lines((*texts, ""), number)
