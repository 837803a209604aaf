"""Every hazard that PyTorch 2.13 itself writes into JSON: each file is read, and all views answer."""

from __future__ import annotations

import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.payloads.export import to_json
from tests.builders import model
from tests.conftest import SHARED
from tests.samples import OF_TRACES

FOLDER = SHARED / "data" / "torch213" / "escapes"
FILES = sorted(path.name for path in FOLDER.glob("*.json*")) or ["(no corpus at ../shared)"]


@pytest.mark.parametrize("name", FILES)
def test_every_view_answers(name: str) -> None:
    if not (FOLDER / name).is_file():
        pytest.skip("no corpus of real traces at ../shared (it is not part of the repository)")
    table = model(FOLDER / name)
    assert len(table) and not table.report.events_dropped and table.report.complete
    for analysis in OF_TRACES:
        to_json(analysis.answer([analysis.part(table, Params())], Params()))
