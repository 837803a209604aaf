"""The recorded answers of the page's tests are what the server says now (``make payload-fixtures`` records them anew)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import page_recordings
from tests.page_logdirs import LOGDIRS
from tests.service.fakes import LastingPool


@pytest.mark.parametrize("name", LOGDIRS)
def test_answers_are_as_recorded(name: str, workers: LastingPool, tmp_path: Path) -> None:
    recorded = page_recordings.load(name)
    with page_recordings.recorders(tmp_path, workers, [name]) as by_name:
        for path in recorded:
            by_name[name].answer(path)
        now = by_name[name].recorded()
    different = [path for path, answer in recorded.items() if now[path] != answer]
    assert not different, f"Run make payload-fixtures: {len(different)} of {len(recorded)} differ, first {different[0]}"
