"""No page of an NPU calls a thing by a GPU's word: titles, definitions, findings, advice and what is shown, of every view."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tb_plugin import cli, registry
from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.profilers import TORCH_NPU
from tests.depth import needs_time, sampled
from tests.formats.ascend.folders import needs_recorded
from tests.formats.ascend.golden import table
from tests.samples import OURS, REPO, made

WORDS = re.compile(
    r"(?i:cuda|nvidia|\bnccl|nvtx|cudnn|cublas|cupti|tensor cores?\b|nvlink|\bwarps?\b|occupancy|streaming multiproc|\bTF32\b"
    r"|nsight|\brocm\b|\bhip\b)|\b(?:GPUs?|SMs?)\b"
)
ALLOWED = re.compile(
    r"nccl-tests"  # the benchmark that defines bus bandwidth, for every library of collectives
    r"|kernel name matches .*"  # a rule about names of kernels, as it is written
)
# SQL lists the columns for the traces of all vendors.
OF_TRACES = [analysis for analysis in registry.analyses() if analysis.model is TraceTable and analysis.id != "sql"]
RUNS = ("alexnet_text_level1", "alexnet_text_level0", "alexnet_db_level1", "qwen3_pp2_dp2_level2", "gpt3_2023_level1")
SAMPLES = [each.name for each in OURS if each.name.startswith("synthetic_ascend/")]


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from texts_in(each)


def texts_of(trace: TraceTable, analysis: Any) -> Iterator[str]:
    """Everything that a view may send: its page and the heads and first rows of its tables."""
    if (missing := analysis.missing(trace)) is not None:
        yield from (missing.why, missing.enable)
        return
    part = analysis.part(trace, Params())
    parts = [part] if analysis.scope == "profile" else [part, part]
    yield from texts_in(msgspec.to_builtins(analysis.answer(parts, Params())))
    for name in part.frames if analysis.scope == "profile" else ():
        yield from texts_in(msgspec.to_builtins(analysis.answer(parts, Params(table=name))))


def odd(trace: TraceTable, analyses: Sequence[Any] = OF_TRACES) -> set[tuple[str, str]]:
    """Texts with such a word that the trace itself does not have."""
    found = set()
    stated = set(trace.strings) | set(texts_in(dict(trace.metadata)))
    for analysis in analyses:
        try:
            texts = set(texts_of(trace, analysis))
        except BadRequest:  # views that answer when they are asked about something
            continue
        found |= {(analysis.id, text) for text in texts - stated if WORDS.search(ALLOWED.sub("", text))}
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_pages_of_the_sample(name: str) -> None:
    assert odd(made(name)) == set()


@needs_recorded
@needs_time
@pytest.mark.parametrize("run", sampled(RUNS, ("alexnet_text_level1", "qwen3_pp2_dp2_level2", "gpt3_2023_level1")))
def test_pages_of_recorded_profiles(run: str) -> None:
    assert odd(table(run, "rank_0")) == set()


def test_advice() -> None:
    """Also of findings that no trace at hand shows."""
    texts = [text for advice in TORCH_NPU.advice.values() for text in texts_in([advice.todo, advice.references])]
    assert len(texts) > 60 and [text for text in texts if WORDS.search(text)] == []


def test_such_words_would_be_found() -> None:
    (name,) = (each.name for each in OURS if each.name.startswith("synthetic_gpu/"))
    some = [analysis for analysis in OF_TRACES if analysis.id in ("overview", "kernels")]
    assert {"overview", "kernels"} == {view for view, _ in odd(made(name), some)}


def test_the_report_in_a_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path))
    assert cli.main(["report", str(REPO / "samples" / "synthetic_ascend"), "--worker", "rank0"]) == 0
    text = capsys.readouterr().out
    assert "NPU busy" in text and [line for line in text.splitlines() if WORDS.search(ALLOWED.sub("", line))] == []
