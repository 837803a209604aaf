"""torch_trace_ignore: what a log directory leaves out of the findings, wherever it lies and whatever is in the file."""

from __future__ import annotations

import logging

import fsspec
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.service.catalog import Place
from tb_plugin.service.discovery import ignore_file
from tb_plugin.service.discovery.ignore_file import MOST_BYTES, NAME, parse
from tests.service.fakes import catalog_of, trace_text, workspace_of, write_trace

LINES = b"""# known
data_loading
night run/* low_utilization   # of the night
v1* data_loading
"""


def test_lines():
    told = parse(LINES, "here")
    assert told.of("v100") == ("data_loading",)
    assert told.of("night run/a") == ("data_loading", "low_utilization")
    assert told.of("x", "night run/a") == ("data_loading", "low_utilization"), "by any of its names"
    assert parse(b"", "here").of("v100") == ()


def test_a_hostile_file_is_bounded(caplog):
    with caplog.at_level(logging.WARNING, "torch_trace"):
        assert parse(b"communication\n" + b"x" * 10 * MOST_BYTES, "here").of("a") == ("communication",)
        assert len(parse(b"".join(b"r%d\n" % i for i in range(9_999)), "here").of("a")) == 200
    assert [record.message.partition(":")[0] for record in caplog.records] == ["here", "here"]
    assert parse(b"\xff\xfe\x00 <b>\r\n\x1b[2J", "here").of("a") == ("\x1b[2J",), "text is data, whatever it says"
    starry = parse(b"*a" * 90 + b"b communication", "here")
    assert starry.of("a" * 5_000) == ()


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path):
    """A log directory with one run, and what writes its file: on disk, and in a store."""
    if request.param == "local":
        write_trace(tmp_path / "logs" / "v100" / "w.1.pt.trace.json")
        yield str(tmp_path / "logs"), (tmp_path / "logs" / NAME).write_bytes
        return
    fs = fsspec.filesystem("memory")
    fs.pipe("/ignoring/v100/w.1.pt.trace.json", trace_text("a").encode())
    yield "memory://ignoring", lambda content: fs.pipe(f"/ignoring/{NAME}", content)
    fs.rm("/ignoring", recursive=True)


def test_it_is_read_with_the_scan(place, tmp_path):
    url, write = place
    with workspace_of(url, tmp_path / "cache") as workspace:
        workspace.catalog.scan()
        assert workspace.numbers(Place()).dismissed == []
        write(LINES)
        workspace.catalog.scan()
        assert workspace.numbers(Place()).dismissed == ["data_loading"]
        write(b"nonsense")
        workspace.catalog.scan()
        numbers = workspace.numbers(Place())
        assert numbers.dismissed == []
        notices = [
            notice for notices in numbers.notices for notice in notices.notices if notice.rule == "ignored_unknown"
        ]
        assert [figure.value for notice in notices for figure in notice.figures] == ["nonsense"] * len(notices) != []
        for view in ("overview", "findings"):
            answer = workspace.view(Place(), view, Params(extra=(("without", "nothing_of_the_kind"),)))
            assert isinstance(answer, bytes) and b'"data_quality"' in answer and b"nothing_of_the_kind" not in answer
        write(b"")
        workspace.catalog.scan()
        assert workspace.numbers(Place()).dismissed == []


def test_a_store_that_refuses_the_file_is_asked_again(place, tmp_path, monkeypatch):
    url, write = place
    write(LINES)
    catalog = catalog_of(url)
    root = catalog.roots[0].folder
    with monkeypatch.context() as patch:
        from tb_plugin.errors import StorageError

        def refuse(file, size_bytes):
            raise StorageError("No.", file.path, "")

        patch.setattr(root, "head", refuse)
        catalog.scan()
        (entry,) = catalog.entries()
        assert catalog.ignored(entry) == ()
    catalog.scan()
    assert catalog.ignored(catalog.entries()[0]) == ("data_loading",)
    assert ignore_file.NAME not in "".join(path for path, _ in catalog.skipped()), "it is no profile that was skipped"
