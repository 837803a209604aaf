"""No command ends with an error and without a word, whatever its input."""

from __future__ import annotations

import base64
import gzip
import json
import pickle
from pathlib import Path

import pytest

from tb_plugin import cli
from tests.depth import sampled

EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
PAGE = (
    b'<!DOCTYPE html>\n<html><script>import {MemoryViz} from \'x\';\nconst local_files = [{%s"base64": "%s"}]</script>'
)
CONTENTS = {
    "nothing": b"", "blank": b" \n", "zeros": bytes(5000), "text": b"hello\n", "object": b"{}", "list": b"[]",
    "number": b"7", "no events": b'{"traceEvents": []}', "null events": b'{"traceEvents": null}',
    "cut": b'{"traceEvents": [{"ph',
    "events": b"[" + EVENT + b"]", "pickle": pickle.dumps({"a": 1}), "empty snapshot": pickle.dumps({"segments": []}),
    "cut snapshot": pickle.dumps({"segments": [], "device_traces": []})[:-9], "cut gzip": gzip.compress(EVENT * 50)[:-20],
    "no gzip": b"\x1f\x8bxx", "zst": b"\x28\xb5\x2f\xfdxx", "packets": b"\x0a\x02\x08\x01", "svg": b"<svg></svg>",
    "page of blanks": PAGE % (b" " * 200_000, base64.b64encode(pickle.dumps({"segments": []}))),
}  # fmt: skip
NAMES = (
    "a.json", "a.pt.trace.json", "a.1.pt.trace.json.gz", "a.pickle", "a.html", "a.pftrace", "a.folded", "a.memory_flow.svg",
    "dump_rank_99999999999999999999999999", "nccl_trace_rank_0", "a.bin", "a", "a.csv", "trace_view.json", "\udcff.json",
)  # fmt: skip


def checked(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asks for all forms of a report, and for what doctor says."""
    code = cli.main(["report", str(place), "--view", "overview"])
    printed = capsys.readouterr()
    assert code == 0 or printed.err.strip(), (place, code)
    assert cli.main(["report", str(place), "--format", "json", "--view", "overview"]) == code
    printed = capsys.readouterr()
    failed = json.loads(printed.out)["failed"] if printed.out else [{"reason": printed.err}]
    assert code == 0 or failed, (place, code)
    assert all(each["reason"].strip() for each in failed), (place, failed)
    code = cli.main(["doctor", str(place)])
    printed = capsys.readouterr()
    assert code == 0 or printed.out.strip() or printed.err.strip(), (place, code)


@pytest.mark.parametrize("name", NAMES)
def test_an_error_has_a_reason(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = [*enumerate(CONTENTS.values())]
    # Each content has every second name, and the next content the others.
    for number, data in sampled(every, every[NAMES.index(name) % 2 :: 2]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / name).write_bytes(data)
        checked(folder / name, capsys)
        if number % 6 < 2:
            checked(folder, capsys)


def test_places_without_a_file_have_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "README.md").write_text("hello")
    (tmp_path / "link.json").symlink_to(tmp_path / "missing")
    for name in ("empty", "notes", "link.json", "missing", "empty/\udcff", ""):
        checked(tmp_path / name if name else tmp_path / "empty" / "..", capsys)
