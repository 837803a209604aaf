"""Classes of kernels: who speaks for them, the sums by class, and a recount in plain Python."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin import registry
from tb_plugin.analysis.device_time import compute_by_class, device_time
from tb_plugin.analysis.kernel_classes import TITLES
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.model.trace.assemble import assemble
from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.schema import EventKind, KernelClass
from tb_plugin.model.trace.table import RawTrace, TraceTable
from tb_plugin.payloads import Breakdown
from tests.builders import Bytes, TraceBuilder, facts, kernel, part, payload_of, row, rows, trace
from tests.conftest import SAMPLE_FILES, SHARED, loaded, needs_shared, sample
from tests.depth import DEEP, examples
from tests.samples import scanned


def with_rules(builder: TraceBuilder, text: str = "", problem: str = "") -> TraceTable:
    options = ReadOptions(class_rules=RuleFile(text, problem))
    return assemble(KinetoReader().read(Bytes(builder.bytes()), options, no_progress))


def class_of(table: TraceTable, name: str) -> tuple[str, str]:
    found = row(table, "kernels", name=name)
    return found["class"], found["class_by"]


def some_kernels() -> TraceBuilder:
    return (
        trace()
        .op("aten::linear", 0, 100)
        .op("my::wrapper", 10, 50)
        .launches(kernel("attn_fwd", 5, at=200), kernel("fused_7", 7, at=210))
        .op("aten::add", 120, 10)
        .launches(kernel("fused_7", 3, at=220), kernel("secret", 2, at=230))
        .op("nothing::known", 140, 10)
        .launches(kernel("graph_k0", 11, at=240))
        .op("nccl:all_reduce", 160, 10)
        .launches(kernel("ncclDevKernel_AllReduce", 13, at=260))
    )


def test_a_name_speaks_first_then_the_nearest_known_operator() -> None:
    table = some_kernels().table()
    assert class_of(table, "attn_fwd")[0] == "attention"
    assert class_of(table, "attn_fwd")[1].startswith("kernel name matches attention = ")
    # aten::linear has 7 us of it, aten::add 3 us; my::wrapper, which is nearer, no rule knows.
    assert class_of(table, "fused_7") == ("gemm", "launched by aten::linear")
    assert class_of(table, "secret") == ("elementwise", "launched by aten::add")
    assert class_of(table, "graph_k0")[0] == "other"
    assert class_of(table, "ncclDevKernel_AllReduce")[0] == "communication"


def test_times_by_class_sum_to_the_kernel_time() -> None:
    answer = part(some_kernels().table(), "kernels")
    donut = payload_of(answer, "classes", Breakdown)
    found = {slice_.metric.key: slice_.value for slice_ in donut.parts}
    expected = {"communication": 13_000, "gemm": 10_000, "attention": 5_000, "elementwise": 2_000, "other": 11_000}
    assert found == expected
    assert list(found)[-1] == "other"
    assert donut.total == sum(expected.values())
    assert {key: answer.facts[f"kernels.{key}_ns"] for key in expected} == expected
    assert next(slice_.link.params for slice_ in donut.parts if slice_.link) == {"where": "class:communication"}


def test_rules_of_a_person_go_before_all_else() -> None:
    table = with_rules(some_kernels(), "moe = ^nccl\nembedding = operator: ^my::\ncopy = fn_fwd|n_f")
    assert class_of(table, "ncclDevKernel_AllReduce") == (
        "moe",
        "kernel name matches TORCH_TRACE_CLASSES, line 1: moe = ^nccl",
    )
    assert class_of(table, "fused_7") == ("embedding", "launched by my::wrapper")
    assert class_of(table, "attn_fwd")[0] == "copy"


def test_what_a_person_calls_communication_is_communication_everywhere() -> None:
    table = with_rules(some_kernels(), "communication = graph_k0")
    assert class_of(table, "graph_k0")[0] == "communication"
    assert facts(table)["device.0.communication_ns"] == 24_000


@pytest.mark.parametrize(
    ("text", "problem", "told"),
    [
        ("gemm = x\nnonsense", "", "TORCH_TRACE_CLASSES: line 2: not of the form class = regex"),
        ("", "/no/file cannot be read: No such file or directory", "TORCH_TRACE_CLASSES: /no/file cannot be read"),
    ],
)
def test_a_bad_line_is_a_notice(text: str, problem: str, told: str) -> None:
    notices = part(with_rules(some_kernels(), text, problem), "overview").payloads["data_quality"].notices  # type: ignore[union-attr]
    (notice,) = [notice for notice in notices if notice.rule == "class_rules"]
    assert notice.text.startswith(told)
    assert notice.severity == "medium"


def test_the_compute_time_of_a_device_by_class() -> None:
    """Overlapping kernels of two classes count once, for the class with most time; communication is not in it."""
    table = (
        trace()
        .op("x", 0, 1)
        .launches(
            kernel("my_gemm", 10, at=10),
            kernel("elementwise_kernel", 6, at=15, stream=8),
            kernel("ncclDevKernel_AllReduce", 9, at=30),
        )
        .table()
    )
    bar = payload_of(part(table, "overview"), "device_classes_0", Breakdown)
    assert {s.metric.key: s.value for s in bar.parts} == {"gemm": 10_000, "elementwise": 1_000}
    assert bar.total == facts(table)["device.0.compute_ns"] == 11_000


# a recount


def recounted(table: TraceTable) -> dict[str, str]:
    """The class of each kernel's name, row by row, from what the rules say of single names."""
    by_kernel, by_operator = {}, {}
    known = table.classes
    for name, of_operator, found in zip(known.name, known.of_operator, known.kernel_class, strict=True):
        (by_operator if of_operator else by_kernel)[int(name)] = KernelClass(found).name.lower()
    collective, votes = defaultdict(list), defaultdict(Counter)  # type: ignore[var-annotated]
    for event in range(len(table)):
        if table.kind[event] != EventKind.KERNEL:
            continue
        name, around = int(table.name[event]), int(table.operator[event])
        collective[name].append(bool(table.is_collective[event]))
        while around >= 0 and int(table.name[around]) not in by_operator:
            around = int(table.operator[around])
        if around >= 0:
            votes[name][by_operator[int(table.name[around])]] += int(table.dur_ns[event]) + 1
    order = [each.name.lower() for each in KernelClass]
    return {
        table.strings[name]: "communication"
        if all(flags)
        else by_kernel.get(name)
        or max(votes[name].items(), key=lambda vote: (vote[1], order.index(vote[0])), default=("other",))[0]
        for name, flags in collective.items()
    }


def assert_recounted(table: TraceTable) -> None:
    expected, times = recounted(table), Counter()  # type: ignore[var-annotated]
    for found in rows(table, "kernels"):
        assert found["class"] == expected[found["name"]]
        times[found["class"]] += found["total_ns"]
    answer = part(table, "kernels")
    assert {each: answer.facts[f"kernels.{each.name.lower()}_ns"] for each in TITLES} == {
        each: times[each.name.lower()] for each in TITLES
    }
    for device in range(len(table.devices)):
        time = device_time(table, device)
        assert time is None or sum(compute_by_class(table, device).values()) == time.compute_ns


@pytest.mark.parametrize("name", [name for name in SAMPLE_FILES if "synthetic" in name])
def test_samples_recounted(name: str) -> None:
    assert_recounted(sample(name))


names = st.sampled_from(["k1", "k2", "my_gemm", "all_gather_k"])
operators = st.sampled_from(["aten::mm", "aten::add", "my::op", "nccl:all_reduce", "aten::sum"])


@examples(15, 300)
@given(st.lists(st.tuples(operators, operators, st.lists(st.tuples(names, st.integers(0, 5)), max_size=3)), max_size=4))
def test_any_kernels_recounted(calls: list[tuple[str, str, list[tuple[str, int]]]]) -> None:
    builder, at = trace().op("aten::copy_", 0, 1).launches(kernel("k0", 1, at=5)), 10
    for outer, inner, work in calls:
        builder.op(outer, at, 8).op(inner, at + 1, 5)
        builder.launches(*(kernel(name, dur, at=at + 2, stream=i) for i, (name, dur) in enumerate(work)))
        at += 10
    assert_recounted(builder.table())


@needs_shared
def test_little_of_real_traces_is_other() -> None:
    """At most a tenth of the kernel time of each; prints the share (pytest -s). Large files only in a deep run."""
    shares = {}
    for profile in scanned(Path(SHARED / "data"), registry.readers()).profiles:
        name = profile.names[0]
        small = (SHARED / "data" / name).stat().st_size < 110_000
        if (
            profile.reader.raw is not RawTrace
            or len(profile.names) > 1
            or name.startswith("torch213/")
            or not (small or DEEP)
        ):
            continue
        table = loaded(f"shared/data/{name}")
        if (table.kind == EventKind.KERNEL).any():
            found = part(table, "kernels").facts
            total = sum(found[f"kernels.{each.name.lower()}_ns"] or 0 for each in TITLES)
            shares[name] = (found["kernels.other_ns"] or 0) / total
    print(*(f"{share:.4f} {name}" for name, share in sorted(shares.items(), key=lambda item: -item[1])), sep="\n")
    assert len(shares) > 6
    assert max(shares.values()) < 0.1
