"""What may happen to the cache and to the sources while they are used: nothing of it is believed, and nothing ends."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.timeline import pyramid
from tb_plugin.analysis.timeline.tiles import Tile
from tb_plugin.errors import CacheRefused, Cancelled, NotFoundError, StorageError
from tb_plugin.model_kinds import trace as trace_model
from tb_plugin.model_kinds.trace import TraceModel
from tb_plugin.payloads import Profile
from tb_plugin.service import loader
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import FileStore, cache_error_message
from tests.depth import deep, sampled
from tests.service.fakes import LastingSlowPool, SlowPool, catalog_of, trace_text, until, write_trace

W0, W1 = Place(worker="w0"), Place(worker="w1")


@pytest.fixture
def logs(tmp_path):
    for worker in ("w0", "w1"):
        write_trace(tmp_path / "logs" / f"{worker}.1.pt.trace.json", "aten::mm", f"op_of_{worker}")
    return tmp_path / "logs"


@pytest.fixture(scope="module")
def slow():
    """Workers of which every parse is slow and counted."""
    pool = LastingSlowPool(2)
    yield pool
    pool.end()


@pytest.fixture
def opened(logs, tmp_path, slow):
    """Opens a workspace over the log directory as a TensorBoard of its own: all but the first with new processes."""
    spaces = []

    def make(workers=None, cache=tmp_path / "cache", limit_bytes=10**9):
        workspace = Workspace(
            catalog_of(logs), workers or (SlowPool(2) if spaces else slow), FileStore(cache, limit_bytes)
        )
        spaces.append(workspace)
        workspace.catalog.scan()
        return workspace

    yield make
    for workspace in spaces:
        workspace.close()


def inline(opened, **more):
    return opened(InlineWorkers(), **more)


def parses(folder):
    log = folder / "parses.log"
    return len(log.read_text().split()) if log.exists() else 0


def files(folder, suffix):
    return sorted(Path(folder).glob(f"*{suffix}"))


def overview(workspace, place=W0):
    """The view as soon as there is one."""
    workspace.load(place)
    answers = []
    assert until(lambda: answers.append(workspace.view(place, "overview", Params())) or isinstance(answers[-1], bytes))
    return answers[-1]


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    """One bit in the middle of the columns: the structure stays valid."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


def zero_the_end(path):
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size - 500)
        file.write(b"\0" * 500)


def empty(path):
    path.write_bytes(b"")


def replace_by_a_foreign_file(path):
    path.write_bytes(b"somebody else's" * 1000)


DAMAGES = [cut, flip, zero_the_end, empty, replace_by_a_foreign_file, Path.unlink]


@pytest.mark.parametrize(
    ("damage", "suffix"),
    sampled(
        [(damage, suffix) for damage in DAMAGES for suffix in (".arrow", ".summary.json")],
        [(cut, ".arrow"), (flip, ".arrow"), (Path.unlink, ".arrow"), (flip, ".summary.json")],
    ),
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_damage_between_two_sessions_is_found_and_rebuilt(logs, opened, tmp_path, caplog, damage, suffix):
    before = overview(opened())
    (kept,) = files(tmp_path / "cache", suffix)
    damage(kept)
    again = opened()
    assert overview(again) == before
    assert parses(logs) == 2
    assert "died" not in caplog.text, "no worker was lost to it"
    third = opened()
    assert third.profile(W0).state == "ready" and parses(logs) == 2, "and what was rebuilt is whole"


@pytest.mark.parametrize("damage", sampled(DAMAGES, [cut, Path.unlink]), ids=lambda d: d.__name__)
def test_damage_under_way_is_found_and_rebuilt(logs, opened, tmp_path, damage):
    workspace = opened()
    before = overview(workspace)
    (kept,) = files(tmp_path / "cache", ".arrow")
    # Not in place: a mapped file that shrinks kills whoever reads it. That is the next test.
    shutil.copy(kept, copy := tmp_path / "copy")
    damage(copy)
    copy.replace(kept) if copy.exists() else kept.unlink()
    assert isinstance(workspace.view(W0, "overview", Params()), Profile)
    assert overview(workspace) == before
    assert parses(logs) == 2


def test_a_mapped_file_that_shrinks_costs_a_worker_and_no_answer(logs, opened, tmp_path):
    workspace = opened()
    before = overview(workspace)
    (kept,) = files(tmp_path / "cache", ".arrow")
    cut(kept)
    assert overview(workspace) == before
    assert parses(logs) == 2


def test_columns_that_only_a_worker_finds_damaged(opened, tmp_path, monkeypatch):
    """As long as they should be and no Arrow file; as if it happened after the checksum."""
    workspace = inline(opened)
    workspace.load(W0)
    before = workspace.view(W0, "operators", Params())
    (kept,) = files(tmp_path / "cache", ".arrow")
    kept.write_bytes(b"x" * kept.stat().st_size)
    monkeypatch.setattr(loader, "seal_of", lambda path: seal_in_summary(tmp_path))
    again = inline(opened)
    assert again.load(W0).state == "ready"
    monkeypatch.undo()
    assert isinstance(again.view(W0, "operators", Params()), Profile)
    assert again.load(W0).state == "ready"
    assert again.view(W0, "operators", Params()) == before
    TraceModel().read(str(kept))


def test_the_overview_after_a_start_needs_no_columns(opened, monkeypatch):
    before = overview(inline(opened))
    again = inline(opened)
    monkeypatch.setattr(TraceModel, "read", lambda model, path: pytest.fail("the columns were opened"))
    assert overview(again) == before


@pytest.mark.parametrize("damage", sampled([flip, empty, Path.unlink], [flip]), ids=lambda damage: damage.__name__)
def test_an_overview_that_was_damaged_is_computed_again(logs, opened, tmp_path, damage):
    before = overview(opened())
    damage(files(tmp_path / "cache", ".overview")[0])
    assert overview(opened()) == before and parses(logs) == 1


@pytest.mark.parametrize("damage", sampled([flip, empty, Path.unlink], [flip]), ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("kept", [".levels", ".timeline"])
def test_a_timeline_that_was_damaged_is_computed_again(opened, tmp_path, kept, damage):
    def timeline(workspace):
        assert workspace.load(W0)
        return workspace.view(W0, "timeline", Params()), workspace.tiles(W0, 0, [Tile(0, 0)])

    before = timeline(inline(opened))
    damage(files(tmp_path / "cache", kept)[0])
    assert timeline(inline(opened)) == before


def test_the_levels_are_made_once(opened, monkeypatch):
    inline(opened).load(W0)
    again = inline(opened)
    monkeypatch.setattr(pyramid, "build", lambda trace: pytest.fail("the levels were made again"))
    assert again.load(W0) and again.tiles(W0, 0, [Tile(0, 0)])
    assert json.loads(again.view(W0, "timeline", Params()))["payloads"]["timeline"]["tracks"]


def test_the_kept_overview_answers_for_all_steps_only(opened):
    overview(inline(opened))
    again = inline(opened)
    assert again.load(W0)
    one = json.loads(again.view(W0, "overview", Params(), "5"))
    assert one["coverage"]["steps"] == ["5"]


def seal_in_summary(tmp_path):
    (summary,) = files(tmp_path / "cache", ".summary.json")
    return tuple(json.loads(summary.read_bytes().split(b"\n", 1)[1])["columns"])


def test_another_schema_is_another_entry(opened, tmp_path, monkeypatch):
    overview(inline(opened))
    monkeypatch.setattr(TraceModel, "version", 999)
    overview(inline(opened))
    assert len(files(tmp_path / "cache", ".arrow")) == 2


def test_a_part_that_was_damaged_is_computed_again(opened, tmp_path):
    before = inline(opened).group(W0, "distributed", Params())
    for part in files(tmp_path / "cache", ".part"):
        flip(part)
    assert inline(opened).group(W0, "distributed", Params()) == before


# the folder


def test_a_cache_that_is_removed_while_it_runs(logs, opened, tmp_path):
    workspace = opened()
    before = overview(workspace)
    shutil.rmtree(tmp_path / "cache")
    assert overview(workspace) == before
    assert overview(workspace, W1)
    assert len(files(tmp_path / "cache", ".arrow")) == 2, "it was made again"
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_when_nothing_can_be_written_it_says_why(opened, monkeypatch, tmp_path, code):
    real, full = TraceModel.write, [True]

    def write(model, trace, path):
        if full:
            Path(path).write_bytes(b"half")
            raise OSError(code, os.strerror(code))
        real(model, trace, path)

    monkeypatch.setattr(TraceModel, "write", write)
    workspace = inline(opened)
    with pytest.raises(CacheRefused) as error:
        workspace.load(W0)
    why = "The cache folder is full." if code == errno.ENOSPC else "Cannot write to the cache folder: Read-only file"
    assert error.value.what.startswith(why) and "TORCH_TRACE_CACHE" in error.value.do
    assert workspace.profile(W0).state == "failed" and list((tmp_path / "cache").iterdir()) == []
    full.clear()
    assert workspace.profile(W0, retry=True).state == "ready"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_arrow_says_that_the_disk_is_full():
    with pytest.raises(OSError) as error, pa.OSFile("/dev/full", "wb") as sink:
        sink.write(b"x" * 10_000_000)
    assert "cache folder is full" in cache_error_message(Path("/dev/full"), error.value).what


def test_a_full_cache_that_another_process_evicts(logs, opened, tmp_path):
    """The other one keeps nothing: columns vanish under a process that has them mapped, again and again."""
    one, other = opened(), opened(limit_bytes=1)
    before = overview(one)
    for _ in range(3):
        overview(other, W1)
        other._store.evict()
        assert files(tmp_path / "cache", ".arrow") == []
        assert overview(one) == before


@deep
def test_two_tensorboards_on_one_cache(logs, tmp_path):
    """Both parse the same profiles at once; what stays is whole, and each sees what the other made."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tb_plugin.analysis.base import Params\n"
        "from tb_plugin.service.catalog import Place\n"
        "from tb_plugin.service.workers.pool import Pool\n"
        "from tb_plugin.service.workspace import Workspace\n"
        "from tb_plugin.storage.cache import FileStore\n"
        "from tests.service.fakes import catalog_of\n"
        "workspace = Workspace(catalog_of(sys.argv[1]), Pool(2), FileStore(Path(sys.argv[2])))\n"
        "workspace.catalog.scan()\n"
        "for _ in range(3):\n"
        "    for worker in ('w0', 'w1'):\n"
        "        entry = workspace.load(Place(worker=worker))\n"
        "        answer = workspace.view(Place(worker=worker), 'overview', Params())\n"
        "        Path(entry.path).unlink(missing_ok=True)\n"
        "for worker in ('w0', 'w1'):\n"
        "    workspace.load(Place(worker=worker))\n"
        "workspace.close()\n"
    )
    env = os.environ | {"PYTHONPATH": str(Path.cwd())}
    arguments = [sys.executable, "-c", script, str(logs), str(tmp_path / "cache")]
    running = [subprocess.Popen(arguments, env=env, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    kept = files(tmp_path / "cache", ".arrow")
    assert len(kept) == 2
    for columns in kept:
        assert loader._checked(columns, columns.with_suffix(".summary.json")) is not None
    assert not files(tmp_path / "cache", ".part-*")


# the sources


def test_a_source_that_is_replaced_while_it_is_read_is_read_again(logs, opened, monkeypatch):
    real, texts = trace_model.assemble, []

    def assemble(raw):
        if not texts:
            texts.append(trace_text("new"))
            write_trace(logs / "w0.1.pt.trace.json", "new", "and", "longer")
        return real(raw)

    monkeypatch.setattr(trace_model, "assemble", assemble)
    workspace = inline(opened)
    view = json.loads(workspace.view(W0, "operators", Params()) if workspace.load(W0) else b"")
    assert {row["name"] for row in view["payloads"]["operators"]["rows"]} == {"new", "and", "longer"}
    assert len(files(workspace._store.folder, ".arrow")) == 1, "nothing is kept of the mixture"


def test_a_source_that_never_stands_still(logs, opened, monkeypatch):
    real = trace_model.assemble

    def assemble(raw):
        write_trace(logs / "w0.1.pt.trace.json", "x" * (1 + parses(logs)))
        return real(raw)

    monkeypatch.setattr(trace_model, "assemble", assemble)
    monkeypatch.setattr("tb_plugin.service.workspace._PAUSE_SECONDS", 0)
    with pytest.raises(Cancelled, match="keeps changing"):
        inline(opened).load(W0)


def test_a_replaced_source_is_noticed_by_the_background_scan(logs, opened):
    slow = write_trace(logs / "slow.1.pt.trace.json")
    workspace = opened()
    workspace.catalog.start()
    workspace.profile(Place(worker="slow"))
    assert until(lambda: parses(logs) == 1)
    # Put in place whole: one that is half written is no trace, and its worker is not there.
    write_trace(logs.parent / "new.pt.trace.json", "new", "and", "longer").replace(slow)
    assert until(lambda: workspace.profile(Place(worker="slow")).state == "loading" and parses(logs) == 2)


def test_a_source_that_is_deleted_after_it_was_read_is_still_shown_and_marked(logs, opened):
    workspace = opened()
    before = overview(workspace)
    (logs / "w0.1.pt.trace.json").unlink()
    (logs / "w1.1.pt.trace.json").unlink()
    workspace.catalog.scan()
    assert workspace.view(W0, "overview", Params()) == before
    (worker,) = workspace.runs().runs[0].workers
    assert worker.name == "w0", "of the other one nothing was read"
    assert worker.spans[0].state == "ready" and worker.spans[0].problem.what == "The file was deleted."
    write_trace(logs / "w0.1.pt.trace.json", "back", "again")
    workspace.catalog.scan()
    span = workspace.runs().runs[0].workers[0].spans[0]
    assert (span.state, span.problem) == ("found", None)


def test_a_deleted_source_whose_columns_are_lost_goes(logs, opened):
    workspace = inline(opened)
    path = workspace.load(W0).path
    (logs / "w0.1.pt.trace.json").unlink()
    workspace.catalog.scan()
    Path(path).unlink()
    with pytest.raises(StorageError):
        workspace.load(W0)
    workspace.catalog.scan()
    with pytest.raises(NotFoundError):
        workspace.profile(W0)


def test_a_profile_that_got_another_number_is_not_shown_twice(logs, opened):
    write_trace(logs / "w0.2.pt.trace.json", "second")
    workspace = inline(opened)
    workspace.load(Place(worker="w0", span="1"))
    workspace.load(Place(worker="w0", span="2"))
    (logs / "w0.1.pt.trace.json").unlink()
    workspace.catalog.scan()
    assert [e.files.names for e in workspace.catalog.entries() if e.files.worker == "w0"] == [("w0.2.pt.trace.json",)]
