"""What a trace's recorder says about a finding, as payloads."""

from __future__ import annotations

from tb_plugin.payloads import Reference
from tb_plugin.trace.recorder import Recorder


def references_of(recorder: Recorder, finding: str) -> list[Reference]:
    """Returns documents worth reading about a finding."""
    return [Reference(title, url) for title, url in recorder.references(finding)]
