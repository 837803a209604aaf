"""Every recording of ../shared opens in every view."""

from __future__ import annotations

import pytest

from tb_plugin import registry
from tb_plugin.analysis.base import Params
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.payloads.export import to_json
from tb_plugin.service.profile_files import ProfileFiles
from tb_plugin.storage.files import FileSource
from tests.conftest import SHARED
from tests.depth import needs_time, sampled
from tests.samples import scanned

DATA = SHARED / "data"
FOUND = scanned(DATA, registry.readers()).profiles if DATA.is_dir() else ()
EVERY = [found for found in FOUND if "EVIL" not in found.names[0]]
"""All but the pickle that must be refused."""
ESCAPES = "torch213/escapes/"
"""Every hazard that PyTorch 2.13 itself writes into JSON."""
SOME = [found for found in EVERY if found.names[0].startswith(("hta/", "tracelens/", "memsnap_real/", ESCAPES))]


@needs_time
@pytest.mark.skipif(not EVERY, reason="needs ../shared/data")
@pytest.mark.parametrize(
    "found", sampled(EVERY, SOME) if EVERY else [None], ids=lambda found: found.names[0] if found else "none"
)
def test_a_recording_opens_in_every_view(found: ProfileFiles) -> None:
    source = FileSource({name: str(DATA / name) for name in found.names})
    (model,) = [model for model in registry.models() if model.raw is found.reader.raw]
    table = model.assemble(found.reader.read(source, ReadOptions(), no_progress))
    for analysis in registry.analyses():
        if analysis.model is model.type:
            parts = [analysis.part(table, Params())]
            if found.names[0].startswith(ESCAPES):
                assert len(table) and not table.report.events_dropped and table.report.complete
                to_json(analysis.answer(parts, Params()))
