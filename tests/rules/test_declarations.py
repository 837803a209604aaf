"""What rules declare, and what profilers advise about them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from docs.generate.rules import checks
from tb_plugin import rules
from tb_plugin.analysis.phrases import vendor_words
from tb_plugin.payloads import Notice
from tb_plugin.profilers import RECORDERS, profilers
from tb_plugin.rules import all_rules, rule_ids
from tb_plugin.rules._base import NO_SAVING, Detection, Rule
from tb_plugin.views import allocations as snapshots
from tb_plugin.views import memory

RULES = all_rules()
CHECKS = [check for package in (memory, snapshots) for check in checks(package)]
"""Findings of views."""
ADVICE = [each.advice_key(case) for each in (*RULES, *CHECKS) for case in each.cases]
PACKAGE = Path(rules.__file__).parents[1]


def test_each_module_declares_the_rule_of_its_name() -> None:
    assert sorted(rule.id for rule in RULES) == list(rule_ids())
    assert len({rule.title for rule in RULES}) == len({rule.order for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_texts_are_sentences(rule: Rule) -> None:
    texts = {"detects": rule.detects, "threshold": rule.threshold, "saving": rule.saving, "needs": rule.needs or "."}
    assert [name for name, text in texts.items() if not text.endswith(".")] == []
    assert rule.saving.startswith("None") is not rule.saves


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_no_rule_spells_its_id(rule: Rule) -> None:
    """It is the name of the module: notices and advice come from the scene."""
    source = (Path(rules.__file__).parent / f"{rule.id}.py").read_text(encoding="utf-8")
    assert re.findall(rf'(?:rule=|todo\(|Notice\(\s*|references_of\([^"]*)"{rule.id}', source) == []


@pytest.mark.parametrize("key", ADVICE)
def test_every_built_in_profiler_has_advice_or_says_that_it_has_none(key: str) -> None:
    missing = [recorder.id for recorder in RECORDERS if key not in recorder.advice]
    assert missing == [], f"add {key!r} to the advice in tb_plugin/profilers, or NO_ADVICE"


def test_every_advice_is_asked_for() -> None:
    """A key that no rule, no view and no notice has is misspelt."""
    sources = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "profilers"]
    constants = {node.value for path in sources for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                 if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip
    keys = {key.removesuffix(".inference") for recorder in profilers() for key in recorder.advice}
    keys -= {*ADVICE, *(rule.advice or rule.id for rule in RULES), *(check.id for check in CHECKS)}
    unknown = {key for key in keys if not key.startswith("view.") and key not in constants}
    # Cases are put together: the name of the notice, a dot, the case.
    assert sorted(key for key in unknown if key.partition(".")[0] not in constants | set(rule_ids())) == []


def test_an_undeclared_case_has_no_advice() -> None:
    (rule,) = [each for each in RULES if each.id == "data_loading"]
    assert rule.advice_key("workers") == "data_loading.workers"
    with pytest.raises(KeyError, match="declares no advice for the case 'worker'"):
        rule.advice_key("worker")


@pytest.mark.parametrize("saving", [None, (), 3])
def test_a_detection_says_what_it_saves(saving: Any) -> None:
    notice = Notice("toy", "low", "", "")
    assert Detection(notice, NO_SAVING).saving is NO_SAVING
    with pytest.raises(TypeError, match="must be Bounds or NO_SAVING"):
        Detection(notice, saving)


@pytest.mark.parametrize(
    ("text", "device", "expected"),
    [
        ("The host waits; a device is idle.", "GPU", "The CPU waits; a GPU is idle."),
        ("The host waits; a device is idle.", "NPU", "The CPU waits; an NPU is idle."),
        ("The host waits; a device is idle.", "Device", "The CPU waits; a device is idle."),
        ("Device {device}: .to(device), device=device.", "GPU", "GPU {device}: .to(device), device=device."),
        ("host-to-device copies of {devices} devices", "GPU", "host-to-device copies of {devices} GPUs"),
    ],
)
def test_sentences_have_the_words_of_the_vendor(text: str, device: str, expected: str) -> None:
    assert vendor_words(text, device) == expected
