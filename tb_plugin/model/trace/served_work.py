"""Work of server iterations: prompts, tokens and requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.schema import MISSING, no_rows

Int64 = npt.NDArray[np.int64]


class Mode(IntEnum):
    """Mode of an iteration. Its lower-case name is used in patterns, tables and facts."""

    UNKNOWN = 0
    PREFILL = 1
    """Prompts go through the network."""
    DECODE = 2
    """Requests get their next token."""
    MIXED = 3
    """Both at once."""
    IDLE = 4
    """No requests."""
    DENOISING = 5
    """A denoising step of an image, video or sound."""

    @property
    def word(self) -> str:
        """Returns the word for it, "" if unknown."""
        return self.name.lower() if self else ""


# Modes by their words.
MODES = {mode.word: mode for mode in Mode if mode}


@dataclass(frozen=True, eq=False)
class Served:
    """Work of server iterations, one value per step; -1 = not recorded."""

    mode: npt.NDArray[np.uint8] = no_rows(np.uint8)
    """Mode."""
    batch: Int64 = no_rows(np.int64)
    """Requests."""
    decoding: Int64 = no_rows(np.int64)
    """Requests past their prompt."""
    tokens: Int64 = no_rows(np.int64)
    """Tokens processed by the network: prompt and decoding tokens."""
    decode_tokens: Int64 = no_rows(np.int64)
    """Decoding tokens."""
    context: Int64 = no_rows(np.int64)
    """Context tokens of attention, over all requests."""
    generated: Int64 = no_rows(np.int64)
    """New tokens: one per decoding request, -1 if a request may get several (speculative decoding)."""

    def __len__(self) -> int:
        return len(self.mode)

    @classmethod
    def of(cls, columns: Sequence[Sequence[int]]) -> Served:
        """Returns the values from plain columns in the order of the fields; empty without columns."""
        kinds = (np.uint8, *(np.int64 for _ in range(6)))
        return cls(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=False)))

    @classmethod
    def unknown(cls, count: int) -> Served:
        """Returns unknown values for steps."""
        return cls(np.zeros(count, np.uint8), *(np.full(count, MISSING, np.int64) for _ in range(6)))

    def columns(self) -> tuple[tuple[int, ...], ...]:
        """Returns plain columns; none where there are no values."""
        return tuple(tuple(getattr(self, field.name).tolist()) for field in fields(self)) if len(self) else ()

    def take(self, at: npt.NDArray[np.intp] | slice) -> Served:
        """Returns the values of some steps; empty stays empty."""
        return self if not len(self) else Served(*(getattr(self, field.name)[at] for field in fields(self)))
