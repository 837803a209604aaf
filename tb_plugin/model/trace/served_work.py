"""What the iterations of a server worked on: prompts, tokens after them, for how many requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tb_plugin.model.trace.schema import MISSING, no_rows

Int64 = npt.NDArray[np.int64]


class Mode(IntEnum):
    """What an iteration does. Its lower-case name is the word for it in patterns, tables and facts."""

    UNKNOWN = 0
    PREFILL = 1
    """Prompts go through the network."""
    DECODE = 2
    """Requests get their next token."""
    MIXED = 3
    """Both at once."""
    IDLE = 4
    """No request is there."""
    DENOISING = 5
    """A picture (video, sound) gets a little clearer."""

    @property
    def word(self) -> str:
        """Returns the word for it, "" where nobody knows the mode."""
        return self.name.lower() if self else ""


MODES = {mode.word: mode for mode in Mode if mode}
"""Modes by their words."""


@dataclass(frozen=True, eq=False)
class Served:
    """What the iterations of a server worked on, one value a step; -1 = not recorded."""

    mode: npt.NDArray[np.uint8] = no_rows(np.uint8)
    """Mode."""
    batch: Int64 = no_rows(np.int64)
    """Requests."""
    decoding: Int64 = no_rows(np.int64)
    """Requests among them that are past their prompt."""
    tokens: Int64 = no_rows(np.int64)
    """Tokens that go through the network: of prompts, and those of decoding."""
    decode_tokens: Int64 = no_rows(np.int64)
    """Those of decoding."""
    context: Int64 = no_rows(np.int64)
    """Tokens that attention looks back at, of all requests together."""
    generated: Int64 = no_rows(np.int64)
    """New tokens: one for each request in decoding, -1 where a request may get several (speculative decoding)."""

    def __len__(self) -> int:
        return len(self.mode)

    @classmethod
    def of(cls, columns: Sequence[Sequence[int]]) -> Served:
        """Returns the values from plain columns in the order of the fields; from none, nothing."""
        kinds = (np.uint8, *(np.int64 for _ in range(6)))
        return cls(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=False)))

    @classmethod
    def unknown(cls, count: int) -> Served:
        """Returns values of steps about which nothing is known."""
        return cls(np.zeros(count, np.uint8), *(np.full(count, MISSING, np.int64) for _ in range(6)))

    def columns(self) -> tuple[tuple[int, ...], ...]:
        """Returns plain columns; none where there are no values."""
        return tuple(tuple(getattr(self, field.name).tolist()) for field in fields(self)) if len(self) else ()

    def only(self, at: npt.NDArray[np.intp] | slice) -> Served:
        """Returns the values of some steps; nothing stays nothing."""
        return self if not len(self) else Served(*(getattr(self, field.name)[at] for field in fields(self)))
