"""Rules: what each detects, how its saving is bounded, and the advice of each profiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from inspect import cleandoc
from pkgutil import iter_modules
from types import ModuleType

from tb_plugin.devices.peaks import PEAKS
from tb_plugin.model.trace.recorder import NO_ADVICE, Recorder
from tb_plugin.profilers import profilers
from tb_plugin.profilers.torch_npu import RENAMED
from tb_plugin.rules import all_rules
from tb_plugin.rules._base import Check, Rule
from tb_plugin.views import allocations, memory

HEAD = """
# Rules

One section for each rule of the view Findings. [Findings](../findings.md) explains savings, confidence and the order of
findings, and how to leave a rule out.

- **Threshold**: how much of it makes a finding.
- **Saving**: how much shorter a step would be after the fix.
- **Needs**: what the trace must contain, if that is not in every trace.

A rule marked *needs kernels* is skipped if kernels are missing from the trace.
"""
MEMORY = """
## Findings of memory

The Memory view of a trace reports these findings, for each device in the selected steps or window. A truncated file has none
of these findings. `findings` of report, diff and Python contains them too. The view also has these rules: `out_of_memory`,
`driver_memory_calls`, `reserved_oscillation` and `memory_unused`.

An amount of memory counts if it is significant: 256 MiB or more, and 2 % of the memory of the device or more if that is
known.
"""
SNAPSHOTS = """
## Findings of snapshots

The Allocations view of a memory snapshot reports these findings. No finding is about events that the file does not record.
"""
NAMES = {"fp32": "fp32", "tf32": "TF32", "fp16": "16 bit", "fp8": "FP8"}
"""Formats of numbers, as the table of peaks heads them."""


def page() -> str:
    """Returns the page."""
    return "\n\n".join([cleandoc(HEAD), *(_section(rule) for rule in all_rules()), *_of_views(), _peaks()])


def checks(package: ModuleType) -> list[Check]:
    """Returns the findings that the modules of a view declare."""
    modules = [import_module(f"{package.__name__}.{each.name}") for each in iter_modules(package.__path__)]
    return [each for module in modules for each in vars(module).values() if isinstance(each, Check)]


def _of_views() -> Iterator[str]:
    for head, package in ((MEMORY, memory), (SNAPSHOTS, allocations)):
        yield cleandoc(head)
        for check in checks(package):
            facts = [f"- **Threshold**: {check.threshold}", f"- **Severity**: {check.severity}"]
            notes = [cleandoc(check.notes)] if check.notes else []
            advice = "\n".join(["Advice:", *_advice(check)])
            yield "\n\n".join([f"### `{check.id}`", check.detects, "\n".join(facts), *notes, advice])


def _section(rule: Rule) -> str:
    facts = [f"- **Threshold**: {rule.threshold}", f"- **Saving**: {rule.saving}"]
    needs = [rule.needs] if rule.needs else []
    needs += ["Kernels (*needs kernels*)."] if rule.needs_kernels else []
    if needs:
        facts.append(f"- **Needs**: {' '.join(needs)}")
    advice = "\n".join(["Advice:", *_advice(rule)]) if rule.cases else "It has no advice by profiler."
    notes = [cleandoc(rule.notes)] if rule.notes else []
    return "\n\n".join([f"## `{rule.id}`: {rule.title}", rule.detects, "\n".join(facts), *notes, advice])


def _advice(rule: Rule | Check) -> Iterator[str]:
    """Yields a line for each distinct text of advice. Profilers with the same advice share a line."""
    names: dict[tuple[str, str], dict[str, str]] = {}
    for recorder in profilers():
        for case in rule.cases:
            for suffix in ("", ".inference"):
                text = _text(recorder, rule.advice_key(case) + suffix)
                label = ", ".join([*([f"`{case}`"] if case else []), *(["inference"] if suffix else [])])
                if text:
                    alike = names.setdefault((label, _same(recorder, rule.advice_key(case) + suffix)), {})
                    alike.setdefault(recorder.name, text)
    silent = dict.fromkeys(
        recorder.name
        for recorder in profilers()
        if not any(_text(recorder, rule.advice_key(case)) for case in rule.cases)
    )
    for (label, _), alike in names.items():
        yield f"- {', '.join(alike)}{f' ({label})' if label else ''}: {next(iter(alike.values()))}"
    yield from (f"- {name}: none." for name in silent)


def _text(recorder: Recorder, key: str) -> str:
    advice = recorder.advice.get(key, NO_ADVICE)
    references = ", ".join(f"[{title}]({url})" for title, url in advice.references)
    return " ".join(filter(None, (_escaped(advice.todo), f"See {references}." if references else "")))


def _same(recorder: Recorder, key: str) -> str:
    """Returns the advice in PyTorch's names. torch_npu has the same calls with different names."""
    todo = recorder.advice.get(key, NO_ADVICE).todo
    for name, translated in RENAMED.items():
        todo = todo.replace(translated, name)
    return todo


def _escaped(text: str) -> str:
    """Returns plain text as Markdown, in which underscores and stars are escaped."""
    return re.sub(r"\b__\w+__", r"`\g<0>`", text).replace("*", "\\*")


def _peaks() -> str:
    head = "\n".join(
        [
            "## Peaks of GPUs",
            "",
            "Dense peaks by the makers' data sheets: tera-operations per second, and gigabytes per second of memory.",
            "`matrix_units`, `tf32_off`, `matrix_alignment` and `slow_matrix_products` use them.",
            "The first pattern that matches the name of the GPU counts.",
            "",
            f"| pattern | {' | '.join(NAMES.values())} | bandwidth |",
            f"|---|{'---:|' * (len(NAMES) + 1)}",
        ]
    )
    rows = []
    for peak in PEAKS:
        values = [peak.fp32, peak.tf32, peak.fp16, peak.fp8, peak.bandwidth]
        cells = " | ".join("" if value is None else f"{value:,}" for value in values)
        rows.append(f"| `{peak.pattern.replace('|', chr(92) + '|')}` | {cells} |")
    return "\n".join([head, *rows])
