"""Search queries: how terms are read, and that each field finds what a filter by hand finds."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.kernel_labels import kernel_label
from tb_plugin.analysis.query import MAX_QUERY_CHARS, MAX_TERMS, matching_query, parse_query
from tb_plugin.errors import BadRequest
from tb_plugin.model.trace.schema import EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, figures, kernel, memcpy, part, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples


def small() -> TraceBuilder:
    """Two steps; ``aten::linear`` calls ``aten::mm``, which launches a kernel on stream 7; another kernel on stream 20."""
    builder = (
        trace().step(1, 0, 100).op("aten::linear", 10, 40).op("aten::mm", 12, 20, shapes=[[2, 8]], backend="nccl x")
    )
    builder.launches(kernel("gemm", 7, 40, grid=[1, 2, 3]), at=14, dur=3)
    builder.op("aten::add", 60, 5).launches(kernel("add kernel", 2, 70, stream=20, grid=[9, 1, 1]))
    builder.step(2, 200, 50).op("aten::mm_out", 210, 5, tid=2, num_warps=8)
    builder.python("serve.py(7): loop", 205, 40, id=1, tid=2)
    return builder.on_device(memcpy(4, 90, "Memcpy HtoD", bytes=4096), corr=999)


def found(query: str, table: TraceTable | None = None) -> list[str]:
    table = small().table() if table is None else table
    return [table.strings[int(table.name[row])] for row in np.flatnonzero(matching_query(table, query))]


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("conv 128x32 f32", 1), ("/conv.*f32/", 1), ("name:conv", 1), ("scudnn", 1), ("elementwise [add]", 1),
        ("name=conv", 0), ("kind:kernel -conv", 1), ("-kind:kernel -/e/", 0), ("-> ", 0), ('"-conv"', 0),
    ],
)  # fmt: skip
def test_kernels_are_found_by_short_name_and_terms_exclude(query: str, count: int) -> None:
    add = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, Array<char*, 3> >(int)"
    builder = trace().step(1, 0, 100).op("aten::conv2d", 10, 40)
    builder.launches(kernel("maxwell_scudnn_128x32_relu_interior_nn_v1", 7, 40), at=14, dur=3)
    builder.launches(kernel(add, 2, 70), at=18, dur=3)
    table = builder.table()
    kernels = table.kind == EventKind.KERNEL
    assert int((matching_query(table, query) & kernels).sum()) == count


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("aten::mm", ["aten::mm", "aten::mm_out"]),
        ("/mm$/", ["aten::mm", "gemm"]),
        ("Memcpy HtoD", ["Memcpy HtoD"]),
        ("htod memcpy", ["Memcpy HtoD"]),
        ('"add kernel"', ["add kernel"]),
        ('"kernel add"', []),
        ("/add k/ kind:kernel", ["add kernel"]),
        ("dur>40us", ["ProfilerStep#1", "ProfilerStep#2"]),
        ("dur >= 40us kind:python", ["serve.py(7): loop"]),
        ("dur<0.003ms kind:kernel", ["add kernel"]),
        ("dur=7000ns", ["gemm"]),
        ("dur=7.5ns", []),
        ("kind:kernel", ["gemm", "add kernel"]),
        ("kind:KERNEL add", ["add kernel"]),
        ("stream:20", ["add kernel"]),
        ("stream:7 kind:memcpy", ["Memcpy HtoD"]),
        ("thread:main kind:operator", ["aten::linear", "aten::mm", "aten::add"]),
        ("op:aten::linear kind:kernel", ["gemm"]),
        ("op=aten::mm", ["aten::mm", "cudaLaunchKernel", "gemm"]),
        ("op:/mm_out$/", ["aten::mm_out"]),
        ("name:mm_out", ["aten::mm_out"]),
        ("name=aten::mm", ["aten::mm"]),
        ("arg.grid=[1,2,3]", ["gemm"]),
        ('arg.grid="[9, 1, 1]"', ["add kernel"]),
        ("arg.shapes:8", ["aten::mm"]),
        ("arg.backend:NCCL", ["aten::mm"]),
        ("arg.backend=nccl", []),
        ("arg.num_warps=8", ["aten::mm_out"]),
        ("arg.bytes>4000", ["Memcpy HtoD"]),
        ("arg.bytes>4096", []),
        ("/opt/x.py", []),
        ("", None),
    ],
    ids=str,
)
def test_what_a_query_finds(query: str, names: list[str] | None) -> None:
    assert found(query) == (names if names is not None else found("dur>=0ns"))


@pytest.mark.parametrize(
    ("query", "wrong", "advice"),
    [
        ("aten::mm duration>100us", "duration>100us", "dur, kind, stream"),
        ("foo:bar", "foo:bar", '"foo:bar"'),
        ("dur>100", "dur>100: the unit", "dur>100us"),
        ("dur>fast", "dur>fast: the duration", "dur>100us"),
        ("dur>", "dur>", "dur>100us"),
        ("kind:kernels", "kind:kernels", "Kinds: operator, annotation, python, runtime, kernel, memcpy."),
        ("kind:", "kind:: a value", "Kinds: "),
        ("stream:9", "stream:9", "Streams: 7, 20."),
        ("name>3", "name>3", "name:text"),
        ("arg.nothing=1", "arg.nothing=1", "num_warps"),
        ("arg.num_warps=many", "arg.num_warps=many", "arg.num_warps>8"),
        ("name:", "name:", "name:/pattern/"),
        ("name:/(/", "not valid", "pattern"),
        ("x" * (MAX_QUERY_CHARS + 1), "too long", str(MAX_QUERY_CHARS)),
        ("x " * (MAX_TERMS + 1), "too many", str(MAX_TERMS)),
    ],
    ids=lambda text: text[:20],
)
def test_a_wrong_term_is_named_with_advice(query: str, wrong: str, advice: str) -> None:
    with pytest.raises(BadRequest) as raised:
        found(query)
    assert wrong in raised.value.what and advice in raised.value.do


@pytest.mark.parametrize(
    "text", ["aten::mm", "at::native::add<float>(x)", "k<128, 4>", "Optimizer.step#SGD", "a.py(3):"]
)
def test_recorded_names_are_text(text: str) -> None:
    assert not any(term.field for term in parse_query(text))


def test_a_quoted_text_is_never_a_field() -> None:
    (term,) = parse_query('"kind:kernel"')
    assert (term.field, term.value) == ("", "kind:kernel")


def by_hand(table: TraceTable, query: str) -> Any:
    """The filter of each field, event by event."""
    field, sign, value = re.fullmatch(r"(\w+)([:<>=])(.*)", query).groups()  # type: ignore[union-attr]
    texts = [table.strings[int(name)].lower() for name in table.name]
    kinds = [EventKind(int(kind)).name.lower() for kind in table.kind]
    chosen = []
    for row, text in enumerate(texts):
        if field == "dur":
            bound, ns = Decimal(value[:-2]) * 1000, int(table.dur_ns[row])
            chosen.append({">": ns > bound, "<": ns < bound, "=": ns == bound}[sign])
        elif field == "kind":
            chosen.append(kinds[row] == value)
        elif field == "name":
            chosen.append(value in text)
        else:
            at, inside = row, False
            while at != -1:
                inside |= kinds[at] == "operator" and value in texts[at]
                at = int(table.operator[at])
            chosen.append(inside)
    return np.array(chosen, np.bool_)


def check(table: TraceTable, queries: list[str]) -> None:
    expected = np.ones(len(table), np.bool_)
    for query in queries:
        expected &= by_hand(table, query)
    assert matching_query(table, " ".join(queries)).tolist() == expected.tolist()


calls = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 25), st.sampled_from(["aa", "ab", "b"])), max_size=10)
terms = st.sampled_from(
    ["dur>5us", "dur<12.5us", "dur=7us", "kind:operator", "kind:kernel", "op:a", "op:ab", "name:b", "name:aa"]
)


@given(calls, st.lists(terms, min_size=1, max_size=3))
@examples(suite=40, deep=600)
def test_a_query_equals_the_filters_by_hand(drawn: list[tuple[int, int, str]], queries: list[str]) -> None:
    builder = trace().op("first", 0, 70)
    for at, dur, text in drawn:
        builder.op(text, at, dur).launches(kernel(f"k{text}", dur, at + 50))
    check(builder.table(), queries)


@pytest.mark.parametrize("name", UNLIKE[:4], ids=lambda n: n.split(".")[0])
def test_a_query_of_a_sample_equals_the_filters_by_hand(name: str) -> None:
    table = sample(name)
    for queries in (["dur>100us"], ["dur<5us", "kind:operator"], ["op:aten::conv"], ["name:relu", "dur>20us"]):
        check(table, queries)


def test_totals_per_step() -> None:
    """Of three launches one is in step 1, one in step 2 and one outside: 12 us of kernels in two steps."""
    builder = trace().step(1, 0, 100).op("a", 10, 20).launches(kernel("k", 7, 40))
    builder.step(2, 200, 100).op("a", 210, 20).launches(kernel("k", 5, 240))
    table = builder.op("a", 400, 20).launches(kernel("k", 100, 440)).table()
    got = figures(part(table, "find", search="kind:kernel").payloads["summary"])
    assert (got["events"], got["total_ns"], got["found_per_step"], got["found_step_ns"]) == (3, 112_000, 1.0, 6_000)
    assert "found_step_ns" not in figures(part(trace().op("a", 0, 5).table(), "find", search="a").payloads["summary"])


def test_short_names_of_kernels_are_those_of_the_page() -> None:
    cases = Path(__file__).parents[2] / "frontend/src/lib/kernelNames.json"
    for name, label in msgspec.json.decode(cases.read_bytes(), type=list[tuple[str, str]]):
        assert kernel_label(name) == label
