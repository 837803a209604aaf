"""Nothing that a file or its name says reaches the terminal as a control character or a mark of direction."""

from __future__ import annotations

import gzip
import io
import json
import logging
import re
import sys

import pytest

from tb_plugin import cli
from tb_plugin.cli import report as command
from tb_plugin.cli.terminal import write_json

HOSTILE = "\x1b]0;X\x07\x9b31m\u202e\u2066\u2028\u200fx"
"""Sets the title, begins a sequence of C1, turns what follows round, breaks the line."""
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f]")


def hostile_event(**more):
    event = {"ph": "X", "cat": "cpu_op", "name": f"op{HOSTILE}", "pid": 1, "tid": 1, "ts": 510, "dur": 10}
    return event | more


@pytest.fixture
def logs(tmp_path):
    logs = tmp_path / "logs"
    (logs / f"run{HOSTILE}").mkdir(parents=True)
    steps = [hostile_event(name=f"ProfilerStep#{i}", cat="user_annotation", ts=i * 100, dur=100) for i in (5, 6)]
    args = {"Input Dims": [[1]], "Call stack": HOSTILE, "Python parent id": 0}
    events = [
        *steps,
        hostile_event(args=args),
        hostile_event(cat=f"category{HOSTILE}", ts=520),
        hostile_event(cat="kernel", pid=0, tid=7, ts=530, args={"stream": HOSTILE, "device": 0, "correlation": 1}),
        hostile_event(cat="kernel", dur="no number"),
        hostile_event(ph="M", name="process_name", args={"name": HOSTILE, "labels": HOSTILE}),
    ]
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": HOSTILE}], "host_name": HOSTILE}
    text = json.dumps(head | {"distributedInfo": {"backend": HOSTILE, "rank": 0}, "traceEvents": events})
    (logs / f"run{HOSTILE}" / f"w{HOSTILE}.1.pt.trace.json").write_text(text)
    (logs / f"run{HOSTILE}" / f"broken{HOSTILE}.pt.trace.json.gz").write_bytes(gzip.compress(b"no trace"))
    (logs / f"config{HOSTILE}.json").write_text("{}")
    return logs


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
@pytest.mark.parametrize("command", ["report", "diff", "doctor", "stacks", "usage", "not there", "no run"])
def test_no_command_prints_control_characters(capsys, monkeypatch, logs, command, form):
    trace = str(logs / f"run{HOSTILE}" / f"w{HOSTILE}.1.pt.trace.json")
    arguments = {
        "report": ["report", str(logs), "--format", form],
        "diff": ["diff", trace, trace, "--format", form],
        "doctor": ["doctor", str(logs)],
        "stacks": ["stacks", trace, "--weight", "host"],
        "usage": ["report", "x", f"--{HOSTILE}"],
        "not there": ["report", str(logs / "none") + HOSTILE, "--format", form],
        "no run": ["report", str(logs), "--run", HOSTILE, "--format", form],
    }[command]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    try:
        cli.main(arguments)
    except SystemExit as usage:
        assert command == "usage" and usage.code == 2
    out, err = capsys.readouterr()
    assert out or err
    # Bold headings are ours.
    shown = re.sub("\x1b\\[[01]m", "", out)
    assert FORBIDDEN.search(shown) is None, shown[max(0, FORBIDDEN.search(shown).start() - 80) :][:200]
    assert FORBIDDEN.search(err) is None, err
    assert "\\u202e" in (out + err)


def test_logged_warnings_go_through_the_same_door(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(
        command, "report", lambda arguments: logging.getLogger("torch_trace").warning("of %s", HOSTILE) or 0
    )
    assert cli.main(["report", str(tmp_path)]) == 0
    assert FORBIDDEN.search(err := capsys.readouterr().err) is None and r"of \x1b]0;X" in err


def test_a_bug_is_no_failed_gate(capsys, monkeypatch, tmp_path):
    def fails(arguments):
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr(command, "report", fails)
    assert cli.main(["report", str(tmp_path)]) == 70
    err = capsys.readouterr().err
    assert "RuntimeError" in err and "Traceback" in err and FORBIDDEN.search(err) is None


def test_json_says_the_same(capsys):
    write_json({"name": HOSTILE + "\U000e0041 µ"})
    text = capsys.readouterr().out
    assert FORBIDDEN.search(text) is None and "µ" in text and "\\udb40\\udc41" in text
    assert json.loads(text) == {"name": HOSTILE + "\U000e0041 µ"}


class Reluctant(io.RawIOBase):
    """Takes seven bytes a write, as a file takes at most 2 GiB of one."""

    def __init__(self):
        self.taken = b""

    def writable(self):
        return True

    def write(self, data):
        self.taken += bytes(data[:7])
        return min(len(data), 7)


def test_json_is_whole_where_one_write_takes_a_part(monkeypatch):
    raw = Reluctant()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
    write_json({"name": "a long name of a kernel"})
    assert json.loads(raw.taken) == {"name": "a long name of a kernel"}
