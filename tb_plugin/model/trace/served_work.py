"""Prompts, tokens and requests of server iterations."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import msgspec
import numpy as np
import numpy.typing as npt

from tb_plugin.lib.arrays import Int64
from tb_plugin.model.trace.schema import MISSING, no_rows, taken


class Mode(IntEnum):
    """Type of a server iteration. Patterns, tables and results use the name of the mode in lower case."""

    UNKNOWN = 0
    PREFILL = 1
    """The network processes prompts."""
    DECODE = 2
    """The network generates the next tokens of requests."""
    MIXED = 3
    """The network processes prompts and generates tokens in the same iteration."""
    IDLE = 4
    DENOISING = 5
    """One denoising step of image, video or audio generation."""

    @property
    def word(self) -> str:
        return self.name.lower() if self else ""


# Modes by their lower-case name.
MODES = {mode.word: mode for mode in Mode if mode}


class Served(msgspec.Struct, frozen=True, eq=False):
    """Work of server iterations. Each column has one value per step; -1 = not recorded."""

    mode: npt.NDArray[np.uint8] = no_rows(np.uint8)
    batch: Int64 = no_rows(np.int64)
    decoding: Int64 = no_rows(np.int64)
    """Number of requests in the decode phase."""
    tokens: Int64 = no_rows(np.int64)
    """Number of tokens that the network processes, including prompt tokens and decode tokens."""
    decode_tokens: Int64 = no_rows(np.int64)
    context: Int64 = no_rows(np.int64)
    """Number of tokens that attention reads as context, summed over all requests."""
    generated: Int64 = no_rows(np.int64)
    """New tokens: one per decoding request; -1 for speculative decoding."""

    def __len__(self) -> int:
        return len(self.mode)

    @classmethod
    def of(cls, columns: Sequence[Sequence[int]]) -> Served:
        """Returns an instance with one sequence per field, in field order; () gives an empty instance."""
        kinds = (np.uint8, *(np.int64 for _ in range(6)))
        return cls(*(np.array(column, kind) for column, kind in zip(columns, kinds, strict=False)))

    @classmethod
    def unknown(cls, count: int) -> Served:
        return cls(np.zeros(count, np.uint8), *(np.full(count, MISSING, np.int64) for _ in range(6)))

    def columns(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(getattr(self, field).tolist()) for field in self.__struct_fields__) if len(self) else ()

    def take(self, at: npt.NDArray[np.intp] | slice) -> Served:
        """Returns the values of some steps. An instance that has no values is returned unchanged."""
        return self if not len(self) else taken(self, at)
