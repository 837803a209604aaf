"""A client that knows no rule finds the cause of each planted problem in at most five calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tb_plugin.rules import regular_rules
from tests.agent.client import Agent, agent_on
from tests.depth import sampled
from tests.faults import FAULTS, Config, run, write
from tests.synthetic_job import Job, Straggler
from tests.synthetic_job import write as write_job

CALLS = 5
PLANTED = {
    "resnet_cpu": ["Data loading takes .* in the main process"],
    "patch_dropout_cpu": ["aten::fill_"],
    "compiled_breaks_cpu": ["graph break", "recompiled"],
    "ddp_gloo8": ["wait for rank5.*aten::mm takes .* more"],
    "synthetic_gpu": ["Data is loaded in the main process", "log_metrics", "waits .* to read a value, at train.py"],
    "synthetic_ddp": ["wait for rank2.*1.25 times as long.*slow device"],
    "synthetic_groups": [
        "wait for rank1.*slow device",
        "7 calls appear on one worker only",
        "traces start up to 65.2 ms apart",
    ],
    "synthetic_job": ["wait for rank5.*nvjet\\w+ takes .* more", "Calls of rank2 are missing"],
    "synthetic_memory": [
        "grows by .*/train.py\\(64\\): remember_loss",
        "Block sizes change from step to step",
        "grows by .*/cache.py\\(18\\): store",
        "Peak memory rises by",
        "Memory ran out",
    ],
    "synthetic_serving": ["idle for .* between consecutive decode steps", '"Python"\n"idle_ns".*"idle_longest_ns":280'],
    "synthetic_sharded": ["recomputation", "Sharding takes", "pipeline_bubble", "offloaded tensors", "unevenly"],
    "synthetic_megengine": ["redundant_reshapes", "serial_collectives", "to read a value, mostly at train.py\\(61\\)"],
    "synthetic_ascend": [
        "lowest core frequency is 1,200 MHz",
        "garbage collection ran once",
        "packets over HCCS are smaller",
        "do little except read memory",
        "convert the layout or type",
    ],
    "synthetic_ascend_cluster": ["Rank 4 computes .* 30.1 % above", "link from rank 3 to rank 5"],
}  # fmt: skip
"""Of each sample with a known problem: words that name the cause (samples/README.md says what was planted)."""
SOME = [
    "data_loading",
    "recomputation",
    "garbage_collection",
    "unfused_kernels",
    "pageable_copies",
    "small_collectives",
]


def investigate(agent: Agent, named: str) -> Iterator[str]:
    """The answers about a run: the brief of its first profile, then what the brief names, or other profiles."""
    left = CALLS
    profiles = json.loads(agent.answer("list_profiles", run=named))["profiles"]
    todo: list[tuple[str, dict[str, Any]]] = [("brief", _key(profiles[0]))]
    seen: list[object] = []
    while todo and (left := left - 1):
        tool, arguments = todo.pop(0)
        if (tool, arguments) in seen:
            left += 1
            continue
        seen.append((tool, arguments))
        text = agent.answer(tool, run=named, **arguments)
        yield text
        if tool == "brief":
            brief = json.loads(text)
            said = " ".join(one["text"] for one in brief["job"])
            mentioned = [each for each in profiles if re.search(rf"\b{re.escape(each['worker'])}\b", said)]
            views = [one["view"] for one in brief["findings"] if one["view"] in brief["views"]]
            todo += [("brief", _key(each)) for each in (*mentioned, *profiles)]
            todo += [("table", {**arguments, "view": view}) for view in views]
            todo.sort(key=lambda each: each[0])  # briefs first


def _key(profile: dict[str, Any]) -> dict[str, Any]:
    return {"worker": profile["worker"], "span": profile["span"]}


@pytest.mark.parametrize("named", PLANTED)
def test_the_cause_of_each_problem_of_a_sample_is_named(samples: Agent, named: str) -> None:
    texts = "\n".join(investigate(samples, named)).replace('","', '"\n"')  # a word and its number are in one text
    assert [cause for cause in PLANTED[named] if not re.search(cause, texts)] == []


RULES = {rule.id for rule in regular_rules()}


SOUGHT = sampled([fault for fault in FAULTS if fault in RULES], SOME)


@pytest.fixture(scope="module")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("faults")
    for fault in SOUGHT:
        write(run(Config(fault=fault)), folder / fault)
    with agent_on(folder) as agent:
        yield agent


@pytest.mark.parametrize("fault", SOUGHT)
def test_the_cause_of_a_planted_fault_is_named(faults: Agent, fault: str) -> None:
    assert f'"rule":"{fault}"' in "\n".join(investigate(faults, fault))


STRAGGLERS = {
    "kernel": "wait for rank2.*nvjet_hsh_128x256.* each call takes 1.50 times as long",
    "work": "wait for rank2.*nvjet_hsh_128x256.* calls in the late steps instead of",
    "device": "wait for rank2.*all its kernels take .*slow device",
    "input": "wait for rank2.*its data loading takes",
    "host": "wait for rank2.*its host is busy or late",
    "copy": "wait for rank2.*its copies without simultaneous compute take",
}


@pytest.fixture(scope="module")
def stragglers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("stragglers")
    for cause in STRAGGLERS:
        write_job(Job(ranks=4, steps=3, stragglers=(Straggler(2, cause, amount_ns=600_000),)), folder / cause)
    with agent_on(folder) as agent:
        yield agent


@pytest.mark.parametrize("cause", STRAGGLERS)
def test_the_cause_of_a_planted_straggler_is_named(stragglers: Agent, cause: str) -> None:
    assert re.search(STRAGGLERS[cause], "\n".join(investigate(stragglers, cause)))
