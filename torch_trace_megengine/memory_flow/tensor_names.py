"""Producers and operators of tensors, derived from tensor names."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from tb_plugin.lib.arrays import Int64
from tb_plugin.lib.model_cache import cached_by_argument
from torch_trace_megengine.memory_flow.model import MemoryFlow

NO_NAME = "(no name)"
_NUMBERS = re.compile(r"\[\d+\]|:\d+\Z")


class Origins(msgspec.Struct, frozen=True, eq=False):
    """Producers and operators of tensors. ``producer`` and ``operator`` are indices into the texts, one per tensor."""

    producers: list[str]
    producer: Int64
    operators: list[str]
    operator: Int64


@cached_by_argument
def origins_of(flow: MemoryFlow) -> Origins:
    """Returns producers and operators of all tensors. Texts are sorted by bytes times lifetime, in descending order."""
    used = np.unique(flow.name)
    producers = [_NUMBERS.sub("", flow.strings[i]) or NO_NAME for i in used.tolist()]
    operators = [text.rpartition(".")[2] for text in producers]
    place = np.searchsorted(used, flow.name)
    weight = flow.size.astype(np.float64) * (flow.end_ns - flow.start_ns)
    found: list[tuple[list[str], Int64]] = []
    for texts in (producers, operators):
        kinds = sorted(set(texts))
        number = {text: i for i, text in enumerate(kinds)}
        of = np.array([number[text] for text in texts], np.int64)[place]
        total = np.bincount(of, weight, len(kinds))
        order = np.argsort(-total, kind="stable")
        rank = np.empty(len(kinds), np.int64)
        rank[order] = np.arange(len(kinds))
        found.append(([kinds[i] for i in order.tolist()], rank[of]))
    return Origins(*found[0], *found[1])
