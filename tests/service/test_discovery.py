"""From file names to runs, workers and spans."""

from __future__ import annotations

import gzip
import json
import threading

import fsspec
import pyarrow as pa
import pytest

from tb_plugin import registry
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stream import TextStream
from tb_plugin.service.discovery import scan
from tb_plugin.service.discovery.claims import time_of
from tb_plugin.service.discovery.scan import NOT_A_TRACE, Root, Scanner
from tb_plugin.service.file_head import HEAD_BYTES, read_head
from tb_plugin.storage.files import Folder, open_local
from tests.service.fakes import trace_text, write_trace


def scanner(*roots):
    return Scanner([root if isinstance(root, Root) else Root(Folder(str(root))) for root in roots], registry.readers())


def places(found):
    return [(f.run, f.worker, f.span, f.names[0].rpartition("/")[2]) for f in found]


def test_run_is_the_directory_or_the_logdirs_own_name(tmp_path):
    logs = tmp_path / "logs"
    write_trace(logs / "w.1.pt.trace.json")
    write_trace(logs / "nested" / "a" / "w.1.pt.trace.json")
    assert [f.run for f in scanner(logs).scan().profiles] == ["logs", "nested/a"]


def test_single_file(tmp_path):
    path = write_trace(tmp_path / "run" / "w.1.pt.trace.json.gz")
    write_trace(tmp_path / "run" / "other.2.pt.trace.json")
    found = scanner(path).scan().profiles
    assert places(found) == [("run", "w", "1", "w.1.pt.trace.json.gz")]
    assert found[0].url == str(path)


@pytest.mark.parametrize("name", ["profile", "steps.pt", "trace.json.txt", "results.csv", "a.bin", "trace.tar.gz", "7"])
def test_the_content_of_a_single_file_decides_whatever_its_name(tmp_path, name):
    path = tmp_path / "run" / name
    path.parent.mkdir()
    path.write_text(trace_text())
    (one,) = scanner(path).scan().profiles
    assert (one.run, one.reader.id, one.names) == ("run", "kineto", (name,))


def test_a_single_file_that_is_no_profile_is_listed(tmp_path):
    path = tmp_path / "notes"
    path.write_text("some text")
    assert scanner(path).scan().skipped == [(str(path), NOT_A_TRACE)]
    part = tmp_path / "trace_view.json"
    part.write_text(trace_text())
    ((_, why),) = scanner(part).scan().skipped
    assert "Ascend" in why


def test_ten_spans_are_ordered_as_numbers(tmp_path):
    tokens = [5, 11, 9, 100, 10, 1, 2, 3, 4, 8]
    for token in tokens:
        write_trace(tmp_path / f"w.{token}.pt.trace.json")
    found = scanner(tmp_path).scan().profiles
    assert [f.span for f in found] == [str(i) for i in range(1, 11)]
    assert [f.names[0] for f in found] == [f"w.{token}.pt.trace.json" for token in sorted(tokens)]
    assert {f.time_unix_ms for f in found} == {None}


def test_ms_and_ns_tokens_are_ordered_by_time(tmp_path):
    for token in ("1795200788569794381", "1795200788000", "1795200789000", "1795200788999000"):
        write_trace(tmp_path / f"w.{token}.pt.trace.json")
    found = scanner(tmp_path).scan().profiles
    assert [f.time_unix_ms for f in found] == [1795200788000, 1795200788569, 1795200788999, 1795200789000]


@pytest.mark.parametrize("token", [None, "7", "12345678", "9" * 30])
def test_implausible_times(token):
    assert time_of(token) is None


def test_same_token_plain_and_gzip_are_two_spans(tmp_path):
    write_trace(tmp_path / "w.7.pt.trace.json")
    write_trace(tmp_path / "w.7.pt.trace.json.gz")
    assert [f.span for f in scanner(tmp_path).scan().profiles] == ["1", "2"]


def test_files_without_token(tmp_path):
    for name in ("w.5.pt.trace.json", "w.pt.trace.json", "w.pt.trace.json.gz", "w.json"):
        write_trace(tmp_path / name)
    spans = {f.names[0]: f.span for f in scanner(tmp_path).scan().profiles}
    assert spans == {
        "w.5.pt.trace.json": "1",
        "w.json": "default",
        "w.pt.trace.json": "default-2",
        "w.pt.trace.json.gz": "default-3",
    }


def test_any_json_that_looks_like_a_trace_is_found(tmp_path):
    write_trace(tmp_path / "my profile.json")
    (tmp_path / "packed.json").write_bytes(gzip.compress(trace_text().encode()))  # gzip without the name
    (tmp_path / "config.json").write_text(json.dumps({"lr": 0.1}))
    (tmp_path / "empty.json").write_text("")
    (tmp_path / "broken.json.gz").write_bytes(b"\x1f\x8b" + b"nonsense" * 10)
    found = scanner(tmp_path).scan()
    assert [f.worker for f in found.profiles] == ["my profile", "packed"]
    assert {path.rpartition("/")[2]: why.split(":")[0] for path, why in found.skipped} == {
        "config.json": NOT_A_TRACE,
        "empty.json": "The file is empty",
        "broken.json.gz": "The archive is damaged",
    }
    assert found.files == 5


def test_a_trace_that_zstandard_packed_is_found_and_read(tmp_path):
    with pa.CompressedOutputStream(str(tmp_path / "w0.1700000000123.pt.trace.json.zst"), "zstd") as file:
        file.write(trace_text().encode())
    (one,) = scanner(tmp_path).scan().profiles
    assert (one.reader.id, one.worker, one.time_unix_ms) == ("kineto", "w0", 1700000000123)
    with one.root.folder.open(one.files[0]) as raw:
        stream = TextStream(raw, one.size_bytes, lambda done: None, IssueLog())
        assert b"".join(iter(lambda: stream.read(1000), b"")) == trace_text().encode()


def test_an_archive_of_an_archive_is_looked_into_and_read(tmp_path):
    text = trace_text().encode()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(gzip.compress(text)))
    (one,) = scanner(tmp_path).scan().profiles
    stored = (tmp_path / "a.json.gz").stat().st_size
    with one.root.folder.open(one.files[0]) as raw:
        states: list[float] = []
        stream = TextStream(raw, stored, states.append, IssueLog())
        read = b"".join(iter(lambda: stream.read(10), b""))
    assert (read, stream.file_bytes, stream.text_bytes, states[-1]) == (text, stored, len(text), 1.0)


def test_truncated_gzip_is_looked_into(tmp_path):
    data = gzip.compress(trace_text(*(f"op{i}" for i in range(1000))).encode())
    (tmp_path / "cut.json.gz").write_bytes(data[: len(data) // 2])
    assert [f.worker for f in scanner(tmp_path).scan().profiles] == ["cut"]


def test_sniffing_is_repeated_only_when_the_file_changes(tmp_path, monkeypatch):
    looks = []
    real = read_head
    monkeypatch.setattr(
        "tb_plugin.service.discovery.scan.read_head", lambda folder, file: looks.append(file.path) or real(folder, file)
    )
    (tmp_path / "a.json").write_text("{")
    scan = scanner(tmp_path)
    assert not scan.scan().profiles and not scan.scan().profiles
    assert looks == ["a.json"]
    write_trace(tmp_path / "a.json")
    assert scan.scan().profiles and scan.scan().profiles
    # What is found is asked for its rank too.
    assert looks == ["a.json", "a.json", "a.json"]


def test_a_storage_that_fails_for_a_moment_is_asked_again(tmp_path, monkeypatch):
    write_trace(tmp_path / "a.json")
    scan = scanner(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "open", lambda self, file: open_local("/nowhere/at/all"))
        first = scan.scan()
    assert not first.profiles and "storage reported an error" in first.skipped[0][1]
    assert scan.scan().profiles


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * 50_000_000))
    folder = Folder(str(tmp_path))
    head = scan.read_head(folder, folder.list().files[0])
    assert len(head) == HEAD_BYTES


def test_several_roots(tmp_path):
    write_trace(tmp_path / "x" / "w.1.pt.trace.json")
    write_trace(tmp_path / "y" / "r" / "w.1.pt.trace.json")
    roots = [Root(Folder(str(tmp_path / name)), name.upper()) for name in ("x", "y")]
    missing = Root(Folder(str(tmp_path / "none")), "N")
    found = scanner(*roots, missing).scan()
    assert [f.run for f in found.profiles] == ["X", "Y/r"]
    assert [error.where for error in found.problems] == [str(tmp_path / "none")]


def test_memory():
    fs = fsspec.filesystem("memory")
    fs.pipe("/disc/run/w.1.pt.trace.json", trace_text().encode())
    fs.pipe("/disc/w.2.pt.trace.json", trace_text().encode())
    try:
        found = scanner("memory://disc").scan().profiles
        assert [(f.run, f.url) for f in found] == [
            ("disc", "memory://disc/w.2.pt.trace.json"),
            ("run", "memory://disc/run/w.1.pt.trace.json"),
        ]
    finally:
        fs.rm("/disc", recursive=True)


def test_directories_are_listed_side_by_side(tmp_path, monkeypatch):
    """Each waits until both have begun: one after the other would never end."""
    both, real = threading.Barrier(2, timeout=10), Folder.list

    def slow(self):
        both.wait()
        return real(self)

    monkeypatch.setattr(Folder, "list", slow)
    for name in ("a", "b"):
        write_trace(tmp_path / name / "w.1.pt.trace.json")
    found = scanner(*(Root(Folder(str(tmp_path / name)), name) for name in ("a", "b"))).scan().profiles
    assert [profile.run for profile in found] == ["a", "b"]


@pytest.mark.parametrize(
    "name", ["a\nb.json", "a\n.1.pt.trace.json.gz", "tab\t.json", "\x1b]0;x\x07.json", "\u202egpj.json"]
)
def test_odd_names_are_listed(tmp_path, name):
    write_trace(tmp_path / name)
    (found,) = scanner(tmp_path).scan().profiles
    assert found.names == (name,)


def test_a_name_with_a_line_break_behind_its_ending_is_none_of_ours(tmp_path):
    write_trace(tmp_path / "a.json\n")
    assert scanner(tmp_path).scan().profiles == []


def test_stages_of_a_rank_are_its_spans(tmp_path):
    for second in (1759255878, 1759255900):
        for rank in range(2 if second == 1759255900 else 1):
            for stage in ("EXTEND", "DECODE"):
                write_trace(tmp_path / f"{second}.904894-TP-{rank}-{stage}.trace.json.gz")
    found = {(f.worker, f.span) for f in scanner(tmp_path).scan().profiles}
    first = {("TP-0", "EXTEND-1"), ("TP-0", "DECODE-1")}
    assert found == first | {(f"TP-{rank}", f"{stage}-2") for rank in range(2) for stage in ("EXTEND", "DECODE")}


def test_stages_of_one_recording_have_no_number(tmp_path):
    for rank in range(2):
        for stage in ("EXTEND", "DECODE"):
            write_trace(tmp_path / f"1759255878.904894-TP-{rank}-DP-0-{stage}.trace.json.gz")
    found = {(f.worker, f.span) for f in scanner(tmp_path).scan().profiles}
    assert found == {(f"TP-{rank}-DP-0", stage) for rank in range(2) for stage in ("EXTEND", "DECODE")}


def test_stages_without_a_number_of_the_recording_are_counted(tmp_path):
    for i, stage in enumerate(("fit", "validate", "fit")):
        write_trace(tmp_path / f"{stage}-0-[Strategy]DDPStrategy.training_step.{1767189312000 + i}.pt.trace.json")
    assert {(f.worker, f.span) for f in scanner(tmp_path).scan().profiles} == {
        ("rank0", "fit"), ("rank0", "validate"), ("rank0", "fit (2)"),
    }  # fmt: skip


def test_steps_in_names_are_spans(tmp_path):
    for rank in range(2):
        for step in (9, 12):
            write_trace(tmp_path / f"worker{rank}_step_{step}.{1767189300000 + step}.pt.trace.json")
    found = {f.names[0].split(".")[0]: (f.worker, f.span) for f in scanner(tmp_path).scan().profiles}
    assert found["worker1_step_9"] == ("worker1", "1") and found["worker1_step_12"] == ("worker1", "2")
