"""The HTML report: the figures of the pages, nothing that runs, nothing that is private, and a limited size."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.timeline.pyramid import build
from tb_plugin.errors import NotFoundError
from tb_plugin.payloads import ReportTimeline, View
from tb_plugin.service.catalog import Place
from tb_plugin.service.html_report import write
from tb_plugin.service.html_report.collect import Wanted, collect
from tb_plugin.service.html_report.redact import Redactor
from tb_plugin.views.timeline.report import report_timeline
from tests.builders import trace
from tests.service.fakes import event, workspace_of, write_trace

SAMPLES = Path("samples")
TEMPLATE = b"<html><script type='application/json'>" + write.PLACEHOLDER + b"</script></html>"
HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--", "a\u2028b\u2029c", "&lt;\\u003c",
           "'\"`${1}", "__TORCH_TRACE_REPORT__", "\u202egnp.exe", "]]>"]  # fmt: skip


PATHS = {
    "/home/a/b/x.py(3): f": "…/x.py(3): f",
    "at /data/x/y.": "at ….",
    "-I/usr/include/x -o=/tmp/x/out.so": "-I… -o=…/out.so",
    "file:///home/a/x.py": "…",
    "see https://docs.pytorch.org/docs/stable/data.html": "see https://docs.pytorch.org/docs/stable/data.html",
    r"D:\a\b.cu:7": "…/b.cu:7",
    r"\\server\share": "…",
    "~/secret/model.py": "…/model.py",
    "x.y@host.example": "user@host",
    "name:x@host": "name:user@host",
    "/home/x/pkg@1.2/y.py": "…/y.py",
    "dir/sub/kernel.cu:12": "…/kernel.cu:12",
}


@pytest.fixture(autouse=True)
def template(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_bytes(TEMPLATE)
    monkeypatch.setattr(write, "TEMPLATE", path)


def data_of(content: bytes) -> dict:
    return json.loads(content.removeprefix(TEMPLATE.partition(b"__")[0]).removesuffix(b"</script></html>"))


def texts_of(value: object) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [value]
        if isinstance(value, str)
        else [text for one in value for text in texts_of(one)]
        if isinstance(value, list)
        else []
    )


def report_of(logs: Path, tmp_path: Path, redact: bool = False, **wanted) -> tuple[bytes, dict]:
    with workspace_of(logs, tmp_path / "cache") as workspace:
        workspace.catalog.scan()
        content = write.html_report(workspace, Wanted(Place(), **wanted), str(logs), redact, waits=True)
    assert isinstance(content, bytes)
    return content, data_of(content)


@pytest.mark.parametrize("sample", ["synthetic_gpu", "synthetic_ddp", "synthetic_memory", "flight_recorder_gloo"])
def test_its_answers_are_those_of_the_pages(sample, tmp_path):
    with workspace_of(SAMPLES / sample, tmp_path / "cache") as workspace:
        workspace.catalog.scan()
        report = collect(workspace, Wanted(Place(), rows=7), "", waits=True)
        seen = 0
        for part in report.views:
            if part.view is None or part.id == "findings":
                continue
            place, params = Place(), Params(limit=7)
            payloads = dict(part.view.payloads)
            if part.id.startswith("ranks") or part.id == "distributed":
                place = Place(report.profile.run, None, report.profile.span)
                if payloads.pop("verdict", None):
                    seen += 100
            whole = msgspec.json.decode(
                workspace.group(place, part.id, params)
                if place.run is not None
                else workspace.view(place, part.id, params),
                type=View,
            )
            assert payloads == {name: whole.payloads[name] for name in payloads}
            assert set(whole.payloads) - set(payloads) == set() or part.omitted
            seen += 1
        assert seen > (100 if sample == "synthetic_ddp" else 0)


def test_markup_in_a_trace_stays_text(tmp_path):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json", *HOSTILE)
    content, data = report_of(tmp_path / "logs", tmp_path, start_ns=0, end_ns=10**9)
    inside = content.removeprefix(TEMPLATE.partition(b"__")[0]).removesuffix(b"</script></html>").decode()
    assert not set("<>&\u2028\u2029") & set(inside)
    assert set(HOSTILE) <= set(data["timeline"]["events"]["names"])


def test_redaction_leaves_no_path_host_or_user(tmp_path):
    frames = ["/home/alice/secret/train.py(3): main", r"C:\Users\bob\proj\x.py(2): f", "team/model.py(9): forward",
              "s3://bucket-of-alice/x.json", "carol@gpu-node17", "copy to 10.1.2.3", "/scratch/dave/data",
              "gpu-node17"]  # fmt: skip
    events = [event(f"ProfilerStep#{i}", i * 1000, 1000, cat="user_annotation") for i in range(2)]
    events += [event(name, 10 + i * 50, 20) for i, name in enumerate(frames)]
    document = {"schemaVersion": 1, "host_name": "gpu-node17.corp.example", "traceEvents": events}
    logs = tmp_path / "logs"
    (logs / "alice_run1").mkdir(parents=True)
    (logs / "alice_run1" / "gpu-node17_4242.1795200788569.pt.trace.json").write_text(json.dumps(document))
    _, data = report_of(logs, tmp_path)
    text = json.dumps(data, ensure_ascii=False)
    private = [
        "alice",
        "bob",
        "secret",
        "gpu-node17",
        "corp.example",
        "10.1.2.3",
        "team/",
        str(tmp_path),
        "scratch",
        "carol",
    ]
    assert [word for word in private if word not in text] == []
    _, data = report_of(logs, tmp_path, redact=True)
    assert [text for text in texts_of(data) if any(word in text for word in private)] == []
    assert "…/train.py(3): main" in data["timeline"]["events"]["names"]
    assert (data["is_redacted"], data["path"], data["profile"]["run"]) == (True, "", "run1")


@pytest.mark.parametrize("sample", ["resnet_cpu", "synthetic_memory", "ddp_gloo"])
def test_no_path_of_a_sample_is_left(sample, tmp_path):
    _, data = report_of(SAMPLES / sample, tmp_path, redact=True)
    texts = json.dumps({key: data[key] for key in ("profile", "timeline")}, ensure_ascii=False)
    texts += json.dumps([view["view"] for view in data["views"]], ensure_ascii=False)
    for path in ("/home", "/usr", "/work/", "site-packages", "torch/", '"vm"', "user/"):
        assert path not in texts.replace("/usr_", ""), path


def test_numbers_and_words_are_not_taken_for_paths():
    redactor = Redactor(["node1"], ["step"], ["step", "run_7"], [])
    for text in ("bytes / 2", "1/2", "samples/s", "(N - 1) / N", "aten::mm", "CPU/GPU", "a|b", "void at::native<4>"):
        assert redactor.text(text) == text
    for text, expected in PATHS.items():
        assert redactor.text(text) == expected
    assert (redactor.text("the step", is_prose=True), redactor.text("of_step")) == ("the step", "of_user1")
    assert redactor.text("run_7") == "run2" and redactor.text("the run_7, node1.") == "the run2, host1."


@pytest.mark.parametrize("piece", ["a/", "-a", "/", "\\", "a@", "1.", "/-", "=/", "a.py/"])
def test_hostile_texts_take_no_longer_than_others(piece):
    redactor = Redactor([f"node{number}" for number in range(100)], [], [], [])
    for number in range(200):
        redactor.text(piece * 1000 + str(number))


def test_it_shrinks_until_it_is_small_enough(tmp_path, monkeypatch):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json", *(f"op{i}" for i in range(60)))
    large, data = report_of(tmp_path / "logs", tmp_path)
    tables = [payload for view in data["views"] if view["view"] for payload in view["view"]["payloads"].values()]
    assert max(len(table["rows"]) for table in tables if table["kind"] == "table") == 50
    monkeypatch.setattr(write, "MAX_BYTES", len(large) - 1000)
    small, data = report_of(tmp_path / "logs", tmp_path)
    assert len(small) < len(large)
    tables = [payload for view in data["views"] if view["view"] for payload in view["view"]["payloads"].values()]
    operators = next(table for table in tables if table["name"] == "operators")
    assert len(operators["rows"]) == 25 and operators["matched_rows"] == 60


def test_the_timeline_has_the_window_and_at_most_so_many_items():
    made = trace().step(1, at=0, dur=1000)
    for number in range(900):
        made.op("aten::mm", at=number, dur=0.1)
    pyramid = build(made.table())
    every = report_timeline(pyramid, 0, 1 << 62, 50_000)
    few = report_timeline(pyramid, 0, 1 << 62, 500)
    fewest = report_timeline(pyramid, 0, 1 << 62, 50)
    part = report_timeline(pyramid, 0, 100_000, 50_000)
    counts = [sum(one.events.count) or len(one.events.event) for one in (every, few)]
    assert counts[0] == counts[1] == every.head.total_events == len(every.events.event)
    assert len(few.events.event) <= 500 and few.head.levels[0].cell_ns > every.head.levels[0].cell_ns
    assert len(fewest.events.event) <= 50 and fewest.head.end_ns < few.head.end_ns
    assert 0 < len(part.events.event) < len(every.events.event) and part.head.end_ns == 100_000
    for one in (every, few, fewest, part):
        check(one)


def check(one: ReportTimeline) -> None:
    head, events = one.head, one.events
    assert sum(events.items) == len(events.event) == len(events.name) == len(events.category) == len(events.dur_ns)
    assert len(events.lane) == len(events.row) and head.groups == [0, len(head.tracks)]
    assert sorted(set(events.lane)) == list(range(len(head.tracks)))
    assert all(row < head.tracks[lane].rows for lane, row in zip(events.lane, events.row, strict=True))
    assert sum(track.events for track in head.tracks) == (sum(events.count) or len(events.event))


def test_a_missing_template_says_what_to_do(tmp_path, monkeypatch):
    write_trace(tmp_path / "logs" / "w.1.pt.trace.json")
    monkeypatch.setattr(write, "TEMPLATE", tmp_path / "none.html")
    with pytest.raises(NotFoundError, match="make build"):
        report_of(tmp_path / "logs", tmp_path)


def test_it_has_the_changes_that_save_most(tmp_path):
    _, data = report_of(SAMPLES / "synthetic_gpu", tmp_path)
    (view,) = [each["view"] for each in data["views"] if each["id"] == "whatif"]
    rows = view["payloads"]["whatif"]["rows"]
    assert len(rows) == 10 and rows[0]["simulated_change"] == "GEMM kernels gone"
    assert "saves most" in view["payloads"]["answer"]["notices"][0]["text"]
