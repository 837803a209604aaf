"""Files of other tools and files that are none: each is named for what it is, and none opens as PyTorch's."""

from __future__ import annotations

import gzip
import marshal
import pickle
import random
import shutil
from pathlib import Path

import pytest

from tb_plugin import registry
from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.unsupported_files import identify_unsupported
from tb_plugin.service.discovery.scan import Root, Scanner
from tb_plugin.service.workers.model_cache import OpenModels
from tb_plugin.service.workers.parse import Parse
from tb_plugin.storage.files import Folder

from .sources import DATA, needs_data

EVENTS = b'[{"ph": "X", "name": "aten::mm", "cat": "cpu_op", "ts": "1.5", "dur": 1, "args": {}}]'
SQLITE = b"SQLite format 3\0" + bytes(84)
TORCH_NPU = b'[{"ph": "X", "name": "aten::mm", "ts": "1.5", "args": {"Input Dims": "2,3;\\r\\n3,4"}}]'


@pytest.mark.parametrize(
    ("path", "head", "word"),
    [
        ("a/ASCEND_PROFILER_OUTPUT/communication.json", b"{}", "Ascend"),
        ("x_1_ascend_pt/profiler_info.json", b"{}", "Ascend"),
        ("trace_view.json", EVENTS, "Ascend"),
        ("renamed.json", TORCH_NPU, "Ascend"),
        ("a.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS"),
        ("a.json", b"\n<!DOCTYPE html><html><head>", "web page"),
        ("a.nsys-rep", b"\x1f\x00", "Nsight Systems"),
        ("a/b.qdrep", b"", "Nsight Systems"),
        ("a.sqlite", SQLITE + b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (", "nsys export"),
        ("a.db", SQLITE + b"CREATE TABLE rocpd_kernelapi (", "rocprof"),
        ("a.db", SQLITE + b"CREATE TABLE runs (", "SQLite"),
        ("a.ncu-rep", b"NVR\0", "Nsight Compute"),
        ("plugins/profile/1/host.xplane.pb", b"\n\x01", "XLA"),
        ("1_kernel_trace.csv", b'"Kind","Agent_Id"', "rocprof"),
        ("a/results.stats.csv", b'"Name","Calls"', "rocprof"),
        ("1_results.json", b'{ "rocprofiler-sdk-tool": [', "rocprof"),
        ("my_results.csv", b"epoch,loss", ""),
        ("out/kernel_trace.csv", b'"Kind","Agent_Id"', "rocprof"),
        ("1_hip_runtime_api_stats.csv", b'"Name","Calls"', "rocprof"),
        ("my_kernel.csv.txt", b"", ""),
        ("kernel.csv", b"", ""),
        ("x.pt.trace.json.zip", b"PK", "Unpack"),
        ("traces.tar.gz", b"", "Unpack"),
        ("node.cpuprofile", b'{"nodes":[', "speedscope"),
        ("PROF_000001_20250109074804023_ABCDEF/device_0/data/x.slice_0", b"", "raw data of an Ascend"),
        ("run/torch_compile_debug/run_2026/torchinductor/model__0/output_code.py", b"", "torch_compile_debug"),
        ("x/output_code.py", b"from torch", "Inductor"),
        ("x/fx_graph_runnable.py", b"import torch", "Inductor"),
        ("my_output_code.py", b"", ""),
        ("t/dedicated_log_torch_trace_rank_0_ab.log", b"V0101", "tlparse"),
        ("out/compile_directory.json", b'{"-": {}}', "tlparse"),
        ("out/index.html", b"<!DOCTYPE html><html><body><h2>Stack trie</h2>", "tlparse"),
        ("memray-train.py.1.bin", b"memray\0", "memray"),
        ("other.bin", b"memray\0\x0c", "memray"),
        ("flame.html", b"<!DOCTYPE html>\n<html><head><title>memray - flamegraph report</title>", "memray"),
        ("perf.data", b"PERFILE2", "Linux perf"),
        ("a.prof", marshal.dumps({("a.py", 1, "f"): (1, 1, 0.5, 0.5, {})}), "cProfile"),
        ("step_100.pt", b"PK\x03\x04", "weights"),
        ("model.safetensors", b"\0", "weights"),
        ("pytorch_model-00001-of-00002.bin", b"PK", "weights"),
        ("a.pkl", b"PK\x03\x04" + bytes(26) + b"archive/data.pkl", "weights"),
        ("a.pkl", pickle.dumps(0x1950A86A20F9469CFC6C, 2), "weights"),
        ("a.pkl", b"\x80\x02ccollections\nOrderedDict\nctorch._utils\n_rebuild_tensor_v2\n", "weights"),
        ("a.json", b"PK\x03\x04" + bytes(26) + b"trace.json", "archive"),
        ("unitrace.1.csv", b"", "unitrace"),
        ("events.out.tfevents.1", b"\x18\0", ""),
        ("notes.txt", b"hello", ""),
        ("a.json", EVENTS, ""),
        ("my_trace_view.json", EVENTS, ""),
        ("a.json", b"", ""),
    ],
)
def test_what_it_is(path: str, head: bytes, word: str) -> None:
    assert word in identify_unsupported(path, head) if word else identify_unsupported(path, head) == ""


def reasons(logs: Path) -> dict[str, str]:
    discovery = Scanner([Root(Folder(str(logs)))], registry.readers()).scan()
    assert discovery.profiles == []
    return {Path(url).name: why for url, why in discovery.skipped}


def test_a_scan_tells_what_it_skips_and_why(tmp_path: Path) -> None:
    files = {
        "trace_view.json.gz": gzip.compress(EVENTS), "page.json": b"<html></html>",
        "empty.json": b"", "nothing.json.gz": gzip.compress(b""), "blank.json": b" \n",
        "results.pickle": pickle.dumps({"conv.weight": [0.1]}), "other.json": b'{"a": 1}',
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    assert reasons(tmp_path) == {
        "trace_view.json.gz": "This file is part of an Ascend profile (torch_npu), which is opened as a folder. Keep the "
        "files of ASCEND_PROFILER_OUTPUT together in a folder of that name. torch_npu.profiler.profiler.analyse(...) "
        "creates it from raw PROF folders.",
        "page.json": "This is a web page, not a trace. The download may have returned a login page or an error.",
        "empty.json": "The file is empty: copy it again, or stop the profiler before the program ends.",
        "nothing.json.gz": "The file has no content: copy it again, or stop the profiler before the program ends.",
        "blank.json": "The file has no content: copy it again, or stop the profiler before the program ends.",
        "results.pickle": "This pickle is neither a memory snapshot nor a flight recorder dump. It may contain "
        "weights or results.",
        "other.json": "The file does not look like a profiler trace. Write one with torch.profiler's "
        "export_chrome_trace(path).",
    }


def test_what_is_known_by_its_name_is_told_and_folders_are_one_thing(tmp_path: Path) -> None:
    """Of a kind with many the folder around them; files that nobody knows, and TensorBoard's own, are told nothing of."""
    names = [
        "a/train.nsys-rep", "events.out.tfevents.1", "notes.txt", "code.py", "a/big.bin", "b/page.html",
        *(f"checkpoints/{kind}/step_{i}.pt" for i in range(40) for kind in ("best", "last")),
        *(f"torch_compile_debug/run_1/torchinductor/model__{i}/output_code.py" for i in range(9)),
        "torch_compile_debug/run_1/torchdynamo/graph.json",
        *(f"r{rank}/PROF_000001_2025_AB/host/data/x.{i}" for rank in range(2) for i in range(9)),
    ]  # fmt: skip
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"<html>x</html>" if name.endswith("html") else b"x")
    scanner = Scanner([Root(Folder(str(tmp_path)))], registry.readers())
    told = {url.removeprefix(f"{tmp_path}").strip("/"): why for url, why in scanner.scan().skipped}
    assert {place: why.split()[2] for place, why in told.items()} == {
        "a/train.nsys-rep": "a", "checkpoints": "contains", "torch_compile_debug": "debug", "b/page.html": "a",
        "r0/PROF_000001_2025_AB": "raw", "r1/PROF_000001_2025_AB": "raw",
    }  # fmt: skip
    assert "(80 such files or folders, for example checkpoints/best/step_0.pt.)" in told["checkpoints"]


MEANT = {
    "a.csv": "is a table", "a.csv.gz": "is a table", "a.parquet": "is a table", "flame.svg": "is an image",
    "a.json.lz4": "Unpack the file", "a.pickle.bz2": "Unpack the file", "a.json.gz.part": "copy the file again",
    "a.json.bak": "Rename the file", "a.json~": "Rename the file",
    "a.chrome_trace": "Rename the file", "train.prof": "Rename the file", "host.pb": "Rename the file",
    "a.gz": "Rename the file", "a.db": "Rename the file", "a.htm": "Rename the file",
    "dump_rank_99999999999999999999999999": "Rename the file", "trace": "Rename the file",
    "profile_table.txt": "is text", "a.zip": "Unpack it", "a.tar.gz": "Unpack it", "a.nsys-rep": "torch.profiler",
    "a.ncu-rep": "torch.profiler", "host.xplane.pb": "create_perfetto_trace", "a.pt": "_dump_snapshot",
    "empty.csv": "is empty", "empty.trace": "is empty",
}  # fmt: skip
OTHERS = (
    "events.out.tfevents.1700000000.host.7.0", "README.md", "README", "notes.txt", "requirements.txt", "hparams.yaml",
    "train.log", "train.py", "a.png", "job.sh", "core.1234", "checkpoint", "a.npy", "sub/LICENSE.txt", "a.toml",
    "torch_trace_ignore",
)  # fmt: skip


@pytest.mark.parametrize("name", MEANT)
def test_each_name_that_may_be_a_recordings_is_told(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"" if name.startswith("empty") else b"\x01\x02 some text")
    told = reasons(tmp_path)
    assert list(told) == [name] and MEANT[name] in told[name]


@pytest.mark.parametrize("name", OTHERS)
def test_names_that_no_recording_has_are_not_listed(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"\x01\x02 some text")
    assert reasons(tmp_path) == {}


def test_many_others_are_counted_without_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Folder, "head", lambda *args: pytest.fail("nothing is to be read"))
    for i in range(500):
        (tmp_path / f"{i:03}.csv").write_bytes(b"x")
    ((place, why),) = Scanner([Root(Folder(str(tmp_path)))], registry.readers()).scan().skipped
    assert place == str(tmp_path) and why.endswith("(500 such files or folders, for example 000.csv.)")


def test_few_unknown_files_are_looked_into_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(100):
        (tmp_path / f"{i}.bin").write_bytes(b"memray\0")
    heads: list[str] = []
    real = Folder.head
    monkeypatch.setattr(Folder, "head", lambda self, *args: heads.append(str(args)) or real(self, *args))
    scanner = Scanner([Root(Folder(str(tmp_path)))], registry.readers())
    for number in range(3):
        (tmp_path / f"new{number}").write_bytes(b"x")  # another listing, the same files
        (told,) = scanner.scan().skipped
        assert "memray" in told[1] and "32 such" in told[1]
    assert len(heads) == 32


def test_the_head_of_a_file_is_fetched_once_for_all_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_bytes(b'{"traceEvents": [{"ph": "X", "name": "f", "ts": 1, "dur": 1}]}')
    heads: list[str] = []
    real = Folder.head
    monkeypatch.setattr(Folder, "head", lambda self, *args: heads.append(str(args)) or real(self, *args))
    (found,) = Scanner([Root(Folder(str(tmp_path)))], registry.readers()).scan().profiles
    assert (found.reader.id, len(heads)) == ("chrome", 1)


def test_a_certain_name_makes_no_trace_of_something_else(tmp_path: Path) -> None:
    """Pointers, pages and nothing at all are told as under other names; what is only damaged is the reader's to tell."""
    files = {
        "a.pt.trace.json": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        "b.pt.trace.json.gz": gzip.compress(b"<!DOCTYPE html><html>"), "c.pt.trace.json": b"", "d.pt.trace.json.gz": b"",
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    told = reasons(tmp_path)
    assert {name[0]: why.split(":")[0].split(". ")[0] for name, why in told.items()} == {
        "a": "This is a Git LFS pointer, not the file itself", "b": "This is a web page, not a trace",
        "c": "The file is empty", "d": "The file is empty",
    }  # fmt: skip
    (tmp_path / "a.pt.trace.json").write_bytes(b'{"traceEvents": [')  # fetched, or written further
    (tmp_path / "e.pt.trace.json.gz").write_bytes(b"\x1f\x8bno archive")
    assert {one.worker for one in Scanner([Root(Folder(str(tmp_path)))], registry.readers()).scan().profiles} == {
        "a",
        "e",
    }


def test_a_page_under_the_name_of_a_trace_is_told_when_it_is_opened(tmp_path: Path) -> None:
    page = tmp_path / "a.pt.trace.json.gz"
    page.write_bytes(gzip.compress(b"<html>" + random.Random(1).randbytes(9000)))
    (found,) = Scanner([Root(Folder(str(tmp_path)))], registry.readers()).scan().profiles
    with pytest.raises(UnreadableTrace, match="web page"):
        Parse(found.reader.id, (("a.pt.trace.json.gz", str(page)),), str(tmp_path / "x"), str(tmp_path / "y")).answer(
            OpenModels(), lambda progress: None
        )


@needs_data
def test_real_profiles_of_ascend_are_never_opened_as_pytorchs(tmp_path: Path) -> None:
    shutil.copytree(DATA / "ascend" / "logdir" / "alexnet_text_level1", tmp_path / "npu")
    scan = Scanner([Root(Folder(str(tmp_path)))], registry.readers()).scan()
    assert {(one.reader.id, one.worker) for one in scan.profiles} == {("ascend", "rank0"), ("ascend", "rank1")}
    assert not scan.skipped


def test_text_in_utf_16_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes('{"traceEvents": []}'.encode("utf-16"))
    (why,) = reasons(tmp_path).values()
    assert "UTF-16" in why and "UTF-8" in why
