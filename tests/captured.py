"""A trace with what another recording captured, as the service puts them together."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from tb_plugin.analysis.graphs.captures import captured_in
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import TraceTable


def with_other(table: TraceTable, recording: TraceTable, source: str = "capture.json") -> TraceTable:
    """The table with all that another one tells of graphs; the texts of the other are added to its own."""
    number = {text: i for i, text in enumerate(table.strings)}
    ids = [number.setdefault(text, len(number)) for text in recording.strings]
    of = np.array([*ids, MISSING], np.int32)
    found = captured_in(recording)

    def own(part: Any, *texts: str) -> Any:
        assert set(texts) <= set(part.__struct_fields__)
        return replace(part, **{name: of[getattr(part, name)] for name in texts})

    scopes = own(found.scopes, "name", "shapes", "types", "values", "stack")
    scopes = replace(scopes, row=np.full(len(scopes), MISSING, np.int32))
    sequences = own(found.sequences, "name", "grid", "block")
    captured = replace(found, source=source, scopes=scopes, sequences=sequences)
    return replace(table, captured=captured, strings=StringTable(number))
