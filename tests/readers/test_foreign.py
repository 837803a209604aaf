"""Files of other tools and files that are none: each is named for what it is, and none opens as PyTorch's."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from tb_plugin.readers import READERS
from tb_plugin.readers.foreign import foreign
from tb_plugin.service.discovery import Root, Scanner
from tb_plugin.storage.files import Folder

from .sources import DATA, needs_data

EVENTS = b'[{"ph": "X", "name": "aten::mm", "cat": "cpu_op", "ts": "1.5", "dur": 1, "args": {}}]'
MEGENGINE = b'{"traceEvents":[{"args":{"value":45.2},"name":"train_time_ratio","ph":"C","pid":7,"tid":0,"ts":0.0}]}'
TORCH_NPU = b'[{"ph": "X", "name": "aten::mm", "ts": "1.5", "args": {"Input Dims": "2,3;\\r\\n3,4"}}]'


@pytest.mark.parametrize(
    ("path", "head", "word"),
    [
        ("a/ASCEND_PROFILER_OUTPUT/communication.json", b"{}", "Ascend"),
        ("x_1_ascend_pt/profiler_info.json", b"{}", "Ascend"),
        ("trace_view.json", EVENTS, "Ascend"),
        ("renamed.json", TORCH_NPU, "Ascend"),
        ("23733.chrome_timeline.json", MEGENGINE, "MegEngine"),
        ("renamed.json", MEGENGINE, "MegEngine"),
        ("a.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS"),
        ("a.json", b"\n<!DOCTYPE html><html><head>", "web page"),
        ("a.json", EVENTS, ""),
        ("my_trace_view.json", EVENTS, ""),
        ("a.json", b"", ""),
    ],
)
def test_what_it_is(path: str, head: bytes, word: str) -> None:
    assert word in foreign(path, head) if word else foreign(path, head) == ""


def reasons(logs: Path) -> dict[str, str]:
    discovery = Scanner([Root(Folder(str(logs)))], READERS).scan()
    assert discovery.found == []
    return {Path(url).name: why for url, why in discovery.skipped}


def test_a_scan_tells_what_it_skips_and_why(tmp_path: Path) -> None:
    files = {
        "5.chrome_timeline.json": MEGENGINE, "trace_view.json.gz": gzip.compress(EVENTS), "page.json": b"<html></html>",
        "empty.json": b"", "nothing.json.gz": gzip.compress(b""), "blank.json": b" \n", "other.json": b'{"a": 1}',
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert reasons(tmp_path) == {
        "5.chrome_timeline.json": "This is a profile of MegEngine, which is not read yet.",
        "trace_view.json.gz": "This belongs to an Ascend profile (torch_npu), which is not read yet.",
        "page.json": "This is a web page, not a trace: a download may have ended at a login or an error.",
        "empty.json": "The file is empty.",
        "nothing.json.gz": "The file holds nothing.",
        "blank.json": "The file holds nothing.",
        "other.json": "It does not look like a profiler trace.",
    }


def test_the_head_of_a_file_is_fetched_once_for_all_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_bytes(b'{"traceEvents": [{"ph": "X", "name": "f", "ts": 1, "dur": 1}]}')
    heads: list[str] = []
    real = Folder.head
    monkeypatch.setattr(Folder, "head", lambda self, *args: heads.append(str(args)) or real(self, *args))
    (found,) = Scanner([Root(Folder(str(tmp_path)))], READERS).scan().found
    assert (found.reader.id, len(heads)) == ("chrome", 1)


@needs_data
def test_real_profiles_of_ascend_and_megengine_are_never_opened_as_pytorchs(tmp_path: Path) -> None:
    shutil.copytree(DATA / "megengine" / "plain", tmp_path / "mge")
    shutil.copytree(DATA / "ascend" / "logdir" / "alexnet_text_level1", tmp_path / "npu")
    told = reasons(tmp_path)
    assert {why for why in told.values() if "MegEngine" not in why and "Ascend" not in why} == set()
    assert "trace_view.json" in told
