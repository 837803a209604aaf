"""What notebooks show of profiles: short, with escaped texts, in the colors of the notebook."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tb_plugin
from tb_plugin.errors import BadRequest
from tb_plugin.notebook import page
from tb_plugin.notebook.page import Page, page_of
from tests.service.fakes import write_trace

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"
TAGS = {"div", "table", "tr", "th", "td"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))


def checked(html: str) -> str:
    """The text of HTML that has only our own tags."""
    assert set(re.findall(r"</?([a-z]+)", html)) <= TAGS
    assert "color:" not in html.replace("color:inherit", "") and "class=" not in html
    assert len(html.encode()) <= 30_000
    return re.sub(r"<[^>]*>", " ", html)


def test_a_profile_shows_its_bottleneck_and_fixes() -> None:
    profile = tb_plugin.open("samples/synthetic_gpu")
    text = checked(profile._repr_html_())
    assert "CPU overhead: the GPU idles for 17.6 ms" in text
    assert "77.7 ms" in text and "25.8 to 27.4 ms" in text
    assert checked(profile.findings._repr_html_()).count("high") == 2
    assert "Read GPU values" in checked(profile.findings[0]._repr_html_())
    assert "There are no findings." in checked(type(profile.findings)()._repr_html_())


def test_only_the_frame_needs_the_web_server() -> None:
    code = "import sys, tb_plugin.api; print(sorted({'werkzeug', 'tensorboard'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_job_shows_its_ranks() -> None:
    text = checked(tb_plugin.open("samples/ddp_gloo8")._repr_html_())
    assert "Other ranks wait for rank5" in text
    assert all(f"rank{rank}" in text for rank in range(8))


def test_a_comparison_shows_what_changed() -> None:
    base, other = (tb_plugin.open("samples/synthetic_ddp", worker=f"rank{rank}") for rank in (0, 2))
    change = base.diff(other)
    text = checked(change._repr_html_())
    assert "+5.48 ms" in text and "GEMM kernels" in text
    assert change.findings[0].rule == "same_step_time"
    kernels = change.table("kernels").set_index("name")
    assert kernels.delta_total_ns["nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTN"] > 3_000_000
    memory = [tb_plugin.open("samples/synthetic_memory", worker=name) for name in ("leaking", "fragmented")]
    assert "fragmented" in checked(memory[0].diff(memory[1])._repr_html_())


def test_two_log_directories_are_compared(tmp_path: Path) -> None:
    write_trace(tmp_path / "one" / "w.1.pt.trace.json", "aten::mm")
    write_trace(tmp_path / "two" / "w.1.pt.trace.json", "aten::mm", "aten::add")
    base, other = (tb_plugin.open(tmp_path / name) for name in ("one", "two"))
    rows = base.diff(other).table("operators").set_index("name")
    assert rows.loc["aten::add", "base_calls"] == 0 and rows.loc["aten::add", "exp_calls"] > 0
    with pytest.raises(BadRequest, match="The baseline is a trace"):
        base.diff(tb_plugin.open("samples/synthetic_memory", worker="leaking"))


def test_texts_of_a_trace_stay_text(tmp_path: Path) -> None:
    for name in ("w.1", "w.2"):
        write_trace(tmp_path / "<b>run" / f"{name}.pt.trace.json", HOSTILE, "aten::mm")
    base, other = (tb_plugin.open(tmp_path, span=span) for span in ("1", "2"))
    for html in (base._repr_html_(), base.findings._repr_html_(), base.diff(other)._repr_html_()):
        checked(html)
    assert "&lt;b&gt;run" in base._repr_html_()
    assert "&lt;script&gt;" in base.operators()._repr_html_()  # by pandas
    assert "<script>" not in base.operators()._repr_html_()


def test_the_frame_has_the_place_of_the_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(page._servers, "logs", "http://127.0.0.1:123/TOKEN/")
    state = {"view": "timeline", "run": "a b/<c>\"'", "worker": "", "span": "1"}
    made = page_of("logs", state, 500, "")
    place = "#torch_trace&p.torch_trace.view=timeline&p.torch_trace.run=a%20b%2F%3Cc%3E%22%27&p.torch_trace.span=1"
    assert made.address == f"http://127.0.0.1:123/TOKEN/{place}"
    assert page_of("logs", state, 500, "/user/me/proxy/").address == f"/user/me/proxy/123/TOKEN/{place}"
    html = Page('/x/" onload="alert(1)', 500)._repr_html_()
    assert re.findall(r"</?([a-z]+)", html) == ["iframe", "iframe", "div", "a", "a", "div"]
    assert 'onload="' not in html
    for proxy in ("proxy/", "/proxy", "javascript:/"):
        with pytest.raises(BadRequest, match="proxy must be"):
            page_of("logs", {}, 500, proxy)
