"""Docs and interfaces are compared both ways: what is sent is documented, and what is documented is sent.

What analyses send for the samples stands in tests/golden, which another test compares with what they send today.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from docs.generate.facts import patterns
from tb_plugin import cli, registry
from tb_plugin.analysis.base import Analysis, Params
from tb_plugin.errors import NotFoundError
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Table
from tb_plugin.rules import all_rules
from tests.conftest import SAMPLE_FILES, SAMPLES, sample
from tests.golden.rewrite import TOLD
from tests.golden.rewrite import golden as golden_of
from tests.samples import OURS, made
from tests.views.test_stated import stated

ROOT = Path(__file__).resolve().parents[1]
CODE = re.compile(r"`([^`]+)`")
PLACES = {
    "<id>": r"[^.]+",
    "<device>": r"[a-z0-9:]+",
    "<category>": "[a-z]+",
    "<class>": "[a-z]+",
    "<cause>": "[a-z_]+",
    "<mode>": "[a-z]+",
    "<rule>": "[a-z_0-9]+",
    "<part>": "[a-z_]+",
    "<source>": "(?:step|stated)",
    "<core>": "[a-z_0-9]+",
    "<metric>": "[a-z_]+",
    "<unit>": "[a-z]+",
    "<allocator>": "[A-Z+]+",
    "<component>": "[A-Z]+",
}
SEVERAL = [analysis for analysis in registry.analyses() if analysis.scope != "profile"]


def docs(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def cells(text: str, column: int) -> Iterator[str]:
    """A column of all tables."""
    for line in text.splitlines():
        if line.startswith("| "):
            yield line.strip("|").split("|")[column].strip()


def pattern(name: str) -> re.Pattern[str]:
    """``device.<id>.kernels`` as a pattern of what is sent."""
    parts = re.split(r"(<\w+>)", name)
    return re.compile("".join(PLACES.get(part) or re.escape(part) for part in parts))


def unlike(sent: set[str], documented: set[str]) -> tuple[list[str], list[str]]:
    """Names that are sent and not documented, and documented but not sent."""
    known = {name: pattern(name) for name in documented}
    missing = [name for name in sent if not any(each.fullmatch(name) for each in known.values())]
    absent = [name for name, each in known.items() if not any(each.fullmatch(one) for one in sent)]
    return sorted(missing), sorted(absent)


@cache
def golden(analysis: str) -> tuple[Mapping[str, Any], ...]:
    """The expected answers of a view."""
    return tuple(views[analysis] for views in (golden_of(sample_.name) for sample_ in TOLD) if analysis in views)


def test_facts_are_those_that_are_declared() -> None:
    sent = {
        fact
        for analysis in registry.analyses()
        if analysis.scope != "pair"
        for part in golden(analysis.id)
        for fact in part["facts"]
    }
    unknown, absent = unlike(sent, patterns())
    assert len(sent) > 40 and unknown == []
    # Goldens hold no zeros: a fact that is 0 for all samples is in the answers alone.
    for sample_ in sorted(OURS, key=lambda each: each.size_bytes):
        beginnings = {name.partition(".")[0] for name in absent}
        views = [
            each for each in sample_.analyses if beginnings & {fact.partition(".")[0] for fact in facts_of(each.id)}
        ]
        answers = [view.part(made(sample_.name), Params()).facts for view in views]
        absent = [
            name for name in absent if not any(pattern(name).fullmatch(fact) for facts in answers for fact in facts)
        ]
    assert absent == []


@cache
def facts_of(analysis: str) -> frozenset[str]:
    return frozenset(fact for part in golden(analysis) for fact in part["facts"])


def test_the_report_has_the_facts_of_all_views(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path))
    path = next(name for name in SAMPLE_FILES if name.startswith("synthetic_ddp/rank0"))
    assert cli.main(["report", str(SAMPLES / path), "--format", "json"]) == 0
    (profile,) = json.loads(capsys.readouterr().out)["profiles"]
    assert unlike(set(profile["facts"]), patterns())[0] == []
    assert profile["facts"]["distributed.world_size"] == 4 and profile["facts"]["distributed.calls"] == 12
    assert "collectives" not in profile["tables"], "the tables of a job stand in groups"
    sent = {fact for part in golden("overview") for fact in part["facts"] if not fact.startswith("device.")}
    assert sent <= set(profile["facts"])


def documented_views() -> dict[str, tuple[str, str]]:
    """View -> what its parameters and payloads are, and its tables, as docs/reference/http.md has them."""
    return {view.id: (f"{view.http.parameters} {view.http.payloads}", view.http.tables) for view in registry.analyses()}


def names_of(text: str) -> set[str]:
    """Names outside of brackets."""
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return set(CODE.findall(text))


def models_for(analysis: Analysis[Any]) -> list[Any]:
    """Samples of the model that a view of several profiles is about: of traces two ranks of a job, and nothing but ranges."""
    if analysis.model is TraceTable:
        ranks = [sample(name) for name in SAMPLE_FILES if name.startswith("synthetic_ddp")]
        return [*ranks[:2], sample("viztracer_cpu/result.json.gz")]
    return [made(each.name) for each in OURS if each.model.type is analysis.model][:2]


def tables_of_several(analysis: Analysis[Any]) -> set[str]:
    parts = [analysis.part(each, Params()) for each in models_for(analysis)]
    with pytest.raises(NotFoundError) as caught:
        analysis.answer(parts, Params(table="no such table"))
    return set(caught.value.do.removeprefix("It has: ").rstrip(".").split(", "))


@pytest.mark.parametrize("analysis", registry.analyses(), ids=lambda analysis: analysis.id)
def test_tables_are_those_of_the_docs(analysis: Analysis[Any]) -> None:
    documented = names_of(documented_views()[analysis.id][1])
    if analysis in SEVERAL:
        assert tables_of_several(analysis) == documented
    elif analysis.id == "stated":  # no sample states any; a profile's own tables have its own names
        assert analysis.part(assemble(stated()), Params()).frames.keys() - {"op_statistic"} == documented
    else:
        assert {name for part in golden(analysis.id) for name in part["tables"]} == documented


@pytest.mark.parametrize("analysis", registry.analyses(), ids=lambda analysis: analysis.id)
def test_payloads_are_documented(analysis: Analysis[Any]) -> None:
    text, tables = documented_views()[analysis.id]
    documented = set(CODE.findall(text)) | names_of(tables)
    if analysis in SEVERAL:
        view = analysis.answer([analysis.part(each, Params()) for each in models_for(analysis)], Params())
        assert not isinstance(view, Table)
        sent = set(view.payloads)
    else:
        sent = {name for part in golden(analysis.id) for name in part["payloads"]}
    assert unlike(sent, documented)[0] == []


def test_findings_of_jobs_in_the_concepts_exist() -> None:
    named = set(re.findall(r"`([a-z_]+)`(?=[,:])", docs("concepts/ranks.md").partition("### Findings of a job")[2]))
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tb_plugin").rglob("*.py"))
    assert "straggler" in named and {name for name in named if f'"{name}"' not in code} == set()


def test_every_rule_of_steps_has_its_section() -> None:
    titles = dict(re.findall(r"^## `([a-z_0-9]+)`: (.+)$", docs("reference/rules.md"), re.MULTILINE))
    assert titles == {rule.id: rule.title for rule in all_rules()}
