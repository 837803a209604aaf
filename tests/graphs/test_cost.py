"""What replays cost: no line of Python for a piece of their work, and bounded memory."""

from __future__ import annotations

import msgspec
import pytest

from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.lib import model_cache
from tb_plugin.model.trace.table import TraceTable
from tests import synthetic_graphs as graphs
from tests.builders import model
from tests.synthetic_graphs import Plan
from tests.test_counted_work import lines, peak

BYTES_PER_ROW = 220


@pytest.mark.parametrize("capture", ["same", "eager"])
def test_a_replay_more_costs_columns_alone(capture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_cache, "MEMO", model_cache.Memo())

    def table(replays: int) -> TraceTable:
        files, _ = graphs.generate(Plan(replays=replays, capture=capture))
        return model(files[0].text().encode())

    few, many = table(4), table(24)
    more = len(many) - len(few)
    assert more > 500

    def origins(trace: TraceTable) -> object:
        return origins_of(msgspec.structs.replace(trace))

    assert lines(lambda: origins(many)) - lines(lambda: origins(few)) < 0.2 * more
    assert peak(lambda: origins(many)) - peak(lambda: origins(few)) < BYTES_PER_ROW * more
