"""Real traces: they read without an issue, agree with independent counts, and do not depend on how they are cut."""

from __future__ import annotations

import gzip
import json
import random

import pytest

from tb_plugin.errors import UnreadableTrace
from tests.depth import DEEP, needs_time
from tests.samples import OURS, SAMPLES

from .sources import DATA, needs_data, plain, read

pytestmark = needs_time
KINETO = [SAMPLES / sample.name for sample in OURS if sample.reader.id == "kineto"]
SMALL = [
    "torch213/plain_1step.pt.trace.json",
    "torch213/eventlist_array.json",
    "torch213/python_export_memory_quotes.pt.trace.json",
    "torch213/escapes/kwargs.pt.trace.json",
    "torch213/metadata_escapes.pt.trace.json.gz",
    "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta/critical_path/simple_add/benchmark_result_493459_1694039959_trace.json.gz",
    "tracelens/h100/gaunernst_bert-small-uncased__1016001.json.gz",
]


@pytest.mark.parametrize("path", KINETO, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_samples_read_without_an_issue(path):
    trace = read(path)
    assert trace.report.complete
    assert trace.report.issues == ()
    # This one shows the lanes of a graph and has not more events than they need.
    assert len(trace.name) > (9 if path.parts[-3] == "graph_lanes_synthetic" else 100)


@needs_data
@pytest.mark.parametrize("name", SMALL)
def test_chunk_size_changes_nothing(name):
    content = (DATA / name).read_bytes()
    expected = plain(read(content))
    for chunk_bytes in (64, 1000, 4096, 30011, 1 << 22):
        assert plain(read(content, chunk_bytes)) == expected


@needs_data
@pytest.mark.parametrize("name", ["torch213/plain_1step.pt.trace.json", "torch213/eventlist_array.json"])
def test_layout_changes_nothing_but_offsets(name):
    value = json.loads((DATA / name).read_bytes())
    texts = [
        json.dumps(value, separators=(",", ":")),
        json.dumps(value),
        json.dumps(value, indent=1),
        json.dumps(value, indent=4),
    ]
    traces = [plain(read(text, 2048)) for text in texts]
    for trace in traces:
        del trace["report"]
    assert all(trace == traces[0] for trace in traces)


@needs_data
@pytest.mark.parametrize("name", SMALL)
def test_truncation_costs_only_the_tail(name):
    content = (DATA / name).read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    whole = read(content)
    chance = random.Random(0)
    for cut in sorted(chance.randrange(len(content)) for _ in range(25 if DEEP else 12)):
        try:
            trace = read(content[:cut])
        except UnreadableTrace:
            assert b'"ph"' not in content[: cut - 40]
            continue
        assert trace.start_ns.tolist() == whole.start_ns[: len(trace.start_ns)].tolist()
        assert trace.report.events_dropped <= 1
    packed = gzip.compress(content)
    for cut in sorted(chance.randrange(20, len(packed)) for _ in range(10 if DEEP else 5)):
        try:
            trace = read(packed[:cut])
        except UnreadableTrace:
            continue
        assert not trace.report.complete
        assert trace.start_ns.tolist() == whole.start_ns[: len(trace.start_ns)].tolist()
