"""Random captures and replays: what is tied is tied to the right launch, and a wrong capture refused where it differs."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tb_plugin.analysis.graphs.captures import captured_in, eager_sequences
from tb_plugin.analysis.graphs.origins import Way, origins_of
from tb_plugin.analysis.graphs.scopes import scopes_around
from tb_plugin.lib.groupby import sequence_hashes
from tb_plugin.model.trace.schema import MISSING, EventKind
from tb_plugin.model.trace.table import TraceTable
from tests.builders import TraceBuilder, kernel, trace
from tests.conftest import UNLIKE, sample
from tests.depth import examples

SIZE = {"grid": [2, 1, 1], "block": [32, 1, 1]}


@dataclass(frozen=True)
class Program:
    """What launches: for each module its operators, for each of these the kernels."""

    modules: tuple[tuple[tuple[str, ...], ...], ...]

    def kernels(self) -> list[str]:
        return [name for module in self.modules for operator in module for name in operator]

    def operators(self) -> list[str]:
        """The operator and the module behind each kernel."""
        return [
            f"Layer_{i} > op{len(operator)}"
            for i, module in enumerate(self.modules)
            for operator in module
            for _ in operator
        ]


names = st.sampled_from(["gemm", "add", "norm", "copy"])
programs = st.builds(
    Program,
    st.lists(
        st.lists(st.lists(names, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple),
        min_size=1,
        max_size=4,
    ).map(tuple),
)


def run(built: TraceBuilder, at: int, program: Program, how: str) -> int:
    """Runs a program in a capture (``named``: its calls name their kernels) or eagerly. Returns when it is done."""
    start = at
    if how != "eager":
        built.call(at, 1, name="cudaStreamBeginCapture")
    at += 2
    for i, module in enumerate(program.modules):
        length = sum(4 + 3 * len(operator) for operator in module)
        built.module("Layer", at, length, number=i, id=start + i)
        for operator in module:
            built.op(f"op{len(operator)}", at + 1, 3 * len(operator) + 1)
            for j, name in enumerate(operator):
                if how == "eager":
                    built.launches(kernel(name, 1, **SIZE), at=at + 2 + 3 * j, dur=1)  # type: ignore[arg-type]
                else:
                    stated = {"kernel": name, **SIZE} if how == "named" else {}
                    built.event("cuda_runtime", "cudaLaunchKernel", at + 2 + 3 * j, 1, 1, 1, **stated)
            at += 4 + 3 * len(operator)
    if how != "eager":
        built.call(at + 1, 1, name="cudaStreamEndCapture")
    return at + 5


def replay(built: TraceBuilder, at: int, kernels: list[str], streams: random.Random | None = None) -> int:
    """Launches a graph of these kernels: one stream, or, with ids of nodes, several streams in any order."""
    when = list(range(len(kernels)))
    if streams is not None:
        streams.shuffle(when)
    work = []
    for i, name in enumerate(kernels):
        stream = 7 if streams is None else 7 + streams.randrange(3)
        ids = {} if streams is None else {"graph id": 9, "graph node id": 2 * i + 1}
        work.append(kernel(name, 1, at=at + 5 + when[i], stream=stream, **SIZE, **ids))  # type: ignore[arg-type]
    built.python("serve.py(1): run", at, 4).launches(*work, at=at + 1, dur=2, name="cudaGraphLaunch")
    return at + 10 + len(kernels)


def behind(table: TraceTable) -> list[tuple[str, str]]:
    """Name of each replayed kernel with the module and the operator behind it, by time."""
    origins = origins_of(table)
    operator = origins.scopes.nearest(EventKind.OPERATOR)[origins.scope]
    module = origins.scopes.nearest(EventKind.MODULE)[origins.scope]

    def text(scope: int) -> str:
        return table.strings[int(np.append(origins.scopes.name, MISSING)[scope])].removeprefix("nn.Module: ")

    return [
        (table.strings[int(table.name[row])], f"{text(m)} > {text(o)}" if o != MISSING else "")
        for row, m, o in zip(origins.work, module, operator, strict=True)
    ]


def agreed(*said: list[str]) -> list[str]:
    """What several places tell of each node: nothing if its operators differ, no module if only that differs."""
    found = []
    for texts in map(set, zip(*said, strict=True)):
        operators = {text.partition(" > ")[2] for text in texts}
        found.append("" if len(operators) > 1 else min(texts) if len(texts) == 1 else f" > {min(operators)}")
    return found


@examples(20, 500)
@given(programs, st.sampled_from(["plain", "named"]), st.randoms(use_true_random=False), st.integers(1, 3))
def test_every_node_is_tied_to_its_launch(program: Program, how: str, chance: random.Random, times: int) -> None:
    built = trace()
    at = run(built, 0, program, how)
    for _ in range(times):
        at = replay(built, at, program.kernels(), chance)
    table = built.table()
    found = behind(table)
    assert set(origins_of(table).way.tolist()) == {Way.CAPTURE}
    assert sorted(found) == sorted(times * list(zip(program.kernels(), program.operators(), strict=True)))
    # In the order of the nodes, whichever stream ran them when.
    (node,) = (column for column in table.others if column.key == "graph node id")
    values, known = node.at(origins_of(table).work)
    assert known.all() and [text for _, text in found] == [program.operators()[i // 2] for i in values.tolist()]


@examples(20, 500)
@given(programs, st.data())
def test_a_wrong_capture_is_not_used_and_says_where_it_differs(program: Program, data: st.DataObject) -> None:
    kernels = program.kernels()
    wrong = data.draw(st.integers(0, len(kernels) - 1))
    built = trace()
    at = run(built, 0, program, "named")
    replay(built, at, [*kernels[:wrong], "another", *kernels[wrong + 1 :]])
    table = built.table()
    assert {text for _, text in behind(table)} == {""}
    assert list(map(str, origins_of(table).agreements.values())) == [f"{wrong} of {len(kernels)} nodes"]


@examples(20, 500)
@given(programs, programs)
def test_of_two_programs_only_what_both_say_is_told(one: Program, two: Program) -> None:
    """Captures that do not name their kernels fit by number alone."""
    built = trace()
    at = run(built, run(built, 0, one, "plain"), two, "plain")
    replay(built, at, one.kernels())
    texts = [text for _, text in behind(built.table())]
    said = [each.operators() for each in (one, two) if len(each.kernels()) == len(one.kernels())]
    assert texts == agreed(*said)


@examples(20, 500)
@given(programs, programs, st.integers(1, 3))
def test_a_twin_is_exact_long_enough_and_always_the_same(program: Program, around: Program, times: int) -> None:
    built = trace()
    at = run(built, 0, around, "eager")
    for _ in range(times):
        at = run(built, at, program, "eager")
    replay(built, at, program.kernels())
    kernels, operators = [
        around.kernels() + times * program.kernels(),
        around.operators() + times * program.operators(),
    ]
    size = len(program.kernels())
    places = [i for i in range(len(kernels) - size + 1) if kernels[i : i + size] == program.kernels()]
    said = [operators[i : i + size] for i in places]
    texts = [text for _, text in behind(built.table())]
    assert texts == (agreed(*said) if size >= 8 else [""] * size)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=20))
def test_equal_sequences_have_equal_hashes(sequences: list[list[int]]) -> None:
    begin = np.cumsum([0, *map(len, sequences)])
    hashes = sequence_hashes(np.concatenate([np.array(each, np.int64) for each in sequences]), begin).tolist()
    of = dict(zip(hashes, map(tuple, sequences), strict=True))
    assert len(of) == len(set(map(tuple, sequences)))


def test_scopes_of_launches_name_the_operator_that_the_trace_knows() -> None:
    for name in (each for each in UNLIKE if each.startswith(("synthetic_gpu", "synthetic_ascend/", "cuspy"))):
        table = sample(name)
        source = eager_sequences(table).source
        scopes, scope = scopes_around(table, source)
        assert (scopes.parent < np.arange(len(scopes))).all()
        found = np.append(scopes.row, MISSING)[scopes.nearest(EventKind.OPERATOR)[scope]]
        own = np.where(table.kind[source] == EventKind.OPERATOR, source, table.operator[source])
        assert (found == own).all(), name
        assert len(captured_in(table).sequences.scope) == len(source)
