"""Analyses speak of no vendor and no recorder: their words are data (tb_plugin/devices, tb_plugin/profilers)."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import tb_plugin
from tb_plugin import registry
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.recorder import UNKNOWN_RECORDER
from tb_plugin.profilers import PYTORCH, PYTORCH_PACKETS, profilers
from tests.builders import kernel, part, trace

WORDS = re.compile(
    r"pytorch|torch\.|\bDDP\b|FSDP|lightning|ProfilerActivity|\bprofile\(|prof(?:iler)?\.step|schedule\(|kineto|cupti|num_workers"
    r"|nvidia|\bnccl\b|rocm|\bamd\b|cuda|\bhip[A-Z_:]|\bintel\b|\bxpu\b|mtia|ascend\b|tensor cores?|matrix cores?|\bxmx\b"
    r"|tf32\b.*needs|bfloat16|DataLoader worker",
    re.IGNORECASE,
)
NAMES_IN_TRACES = {
    "analysis/allocator.py",  # names of device types
    "analysis/code_owner.py",  # names of packages
    "analysis/driver_calls.py",  # prefixes of driver calls
    "analysis/dtypes.py",  # names of element types
    "analysis/kernel_labels.py",  # names of kernels
    "analysis/work/formulas.py",  # names of operators
    "views/distributed/metrics.py",  # nccl-tests defines the bandwidths
    "views/overview/configuration.py",  # keys of files, with their titles
    "views/memory/__init__.py",  # an example of a device id
}
"""Files whose strings are compared with what stands in traces, or name it."""

PACKAGE = Path(tb_plugin.__file__).parent
FILES = sorted(path for folder in ("analysis", "rules", "views") for path in (PACKAGE / folder).rglob("*.py"))


DOCS_OF_RULES = {"detects", "threshold", "saving", "needs", "notes"}
"""Arguments of a rule that docs/reference/rules.md is made of."""


def texts_of(path: Path) -> list[str]:
    """All strings of a module but its docstrings, which stand alone as statements, and docs of rules."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    docs = (node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg in DOCS_OF_RULES)
    alone |= {id(node) for each in docs for node in ast.walk(each)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone]
    return [node.value for node in constants if isinstance(node.value, str)]


def test_no_word_of_a_vendor_or_recorder() -> None:
    names = {path: path.relative_to(PACKAGE).as_posix() for path in FILES}
    found = {names[path]: text for path in FILES for text in texts_of(path) if WORDS.search(text)}
    assert [(name, text) for name, text in found.items() if name not in NAMES_IN_TRACES] == []
    assert found.keys() >= NAMES_IN_TRACES, "the exception is not needed"


def test_the_words_are_those_of_the_trace_s_recorder() -> None:
    table = trace().op("aten::mm", 0, 5).table()
    assert table.recorder == PYTORCH
    shown = [
        analysis for analysis in registry.analyses() if analysis.model is type(table) and not analysis.traits.hidden
    ]
    assert {analysis.id: missing.enable for analysis in shown if (missing := analysis.missing(table))} == {
        view: PYTORCH.todo(f"view.{view}")
        for view in ("kernels", "launches", "idle", "modules", "phases", "memory", "distributed")
    } | {
        "roofline": PYTORCH.todo("view.kernels"),
        "graphs": "",
        "backward": PYTORCH.todo("view.backward.inference"),
    }, "no option makes a program capture graphs"
    notices: Any = part(table, "overview").payloads["data_quality"]
    assert all(n.todo == PYTORCH.todo(n.rule) for n in notices.notices) and notices.notices


def test_what_the_format_of_a_file_never_holds_is_said_and_not_advised() -> None:
    raw = replace(trace().op("aten::mm", 0, 5).raw_trace(), recorder=PYTORCH_PACKETS)
    notices: Any = part(assemble(raw), "overview").payloads["data_quality"]
    todo = {notice.rule: notice.todo for notice in notices.notices}
    assert PYTORCH_PACKETS.lacks and all("JSON" in todo[rule] for rule in ("format_lacks", "memory_missing"))


def test_a_trace_of_another_tool_gets_no_advice_of_pytorch_s() -> None:
    raw = trace().op("aten::mm", 0, 5).launches(kernel("k", 5, 10)).raw_trace()
    table = assemble(replace(raw, recorder=UNKNOWN_RECORDER))
    notices: Any = part(table, "overview").payloads["data_quality"]
    assert {n.rule for n in notices.notices} == {"steps_missing"}, "nobody knows whether it could record shapes"
    assert [n.todo for n in notices.notices] == [""]


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({"name": "Tesla V100"}, "SM"),
        ({"name": "AMD Instinct MI300X"}, "CU"),
        ({"name": "Intel(R) Arc(TM) B580"}, "Xe core"),
    ],
)
def test_multiprocessors_have_the_vendor_s_name(properties: dict[str, str], word: str) -> None:
    table = trace().device(0, **properties).op("aten::mm", 0, 5).launches(kernel("k", 5, 10)).table()
    card: Any = part(table, "overview").payloads["device_0"]
    assert f"{word}s" in {figure.metric.title for figure in card.figures}


def test_recorders_have_ids_of_their_own() -> None:
    assert len({recorder.id for recorder in profilers()}) == len(profilers())
