"""Commands that need few views read a profile briefly; the rest is added when a page opens it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tb_plugin.service.answers.profile_info import navigation
from tb_plugin.service.catalog import Place
from tb_plugin.service.states import Entry
from tb_plugin.service.workers.model_cache import OpenModels
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore
from tb_plugin.views.overview.view import Overview
from tests.service.fakes import catalog_of

GPU = Path(__file__).parents[2] / "samples/synthetic_gpu"


def loaded(cache: Path, without_views: bool) -> Entry:
    catalog = catalog_of(GPU)
    workspace = Workspace(catalog, InlineWorkers(), FileStore(cache), without_views)
    catalog.scan()
    entry = workspace.load(Place())
    workspace.close()
    return entry


def test_a_brief_summary_lacks_only_results_of_views(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Overview, "part", None)  # computed only if asked
        patched.setattr(OpenModels, "levels", None)
        brief = loaded(tmp_path / "brief", without_views=True)
    full = loaded(tmp_path / "full", without_views=False)
    assert brief.summary is not None and full.summary is not None
    assert brief.summary.without_views and not full.summary.without_views
    assert navigation(brief) == navigation(full)
    assert (brief.summary.steps, brief.summary.read) == (full.summary.steps, full.summary.read)


def test_a_page_completes_it_without_reading_the_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = loaded(tmp_path / "full", without_views=False).summary
    loaded(tmp_path / "brief", without_views=True)
    monkeypatch.setattr("tb_plugin.service.workers.parse.Parse.answer", None)
    for _ in range(2):  # completed, and from the cache
        done: Any = loaded(tmp_path / "brief", without_views=False).summary
        assert full is not None and not done.without_views
        assert (done.key_figures, done.data_notice_count) == (full.key_figures, full.data_notice_count)
    # A complete summary serves commands, too.
    again = loaded(tmp_path / "brief", without_views=True).summary
    assert again is not None and not again.without_views
    names = {path.name.split(".", 1)[1] for path in (tmp_path / "brief").iterdir()}
    assert names == {path.name.split(".", 1)[1] for path in (tmp_path / "full").iterdir()}
