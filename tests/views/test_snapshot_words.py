"""The user's line of stacks as PyTorch records them by default: native frames before and between those of Python."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.snapshot.device_levels import devices_of, levels_of
from tb_plugin.analysis.snapshot.labels import MAX_COLUMN_BYTES, stack_words, texts_of
from tb_plugin.views.allocations.view import Allocations
from tests.snapshots import Json, event, segment, snapshot

Frame = tuple[str, int, str]
EVAL = ("??", 0, "_PyEval_EvalFrameDefault")
NATIVE: list[Frame] = [
    ("??", 0, "torch::unwind::unwind()"),
    ("memory_snapshot.cpp", 0, "torch::cuda::(anonymous namespace)::gather_with_cpp()"),
    ("", 0, "c10::cuda::CUDACachingAllocator::allocate(unsigned long)"),
    ("RegisterCUDA.cpp", 0, "wrapper_CUDA_empty"),
    ("/usr/include/c++/11/functional", 590, "std::function<void ()>::operator()() const"),
    ("eval_frame.c", 0, "dynamo_eval_frame"),
]
MODULE = ("/opt/env/lib/python3.12/site-packages/torch/nn/modules/module.py", 1750, "_call_impl")
EINOPS = ("/opt/env/lib/python3.12/site-packages/einops/einops.py", 5, "rearrange")
USER = ("/home/u/model.py", 42, "attention")
HASH = "cab" + "q" * 48
NODE = ("??", 0, "torch::autograd::generated::IndexBackward0::apply(std::vector<at::Tensor>&&)")
ENGINE = ("thread48.o", 0, "execute_native_thread_routine")


def recorded(stack: list[Frame]) -> list[Json]:
    return [{"filename": file, "line": line, "name": name} for file, line, name in stack]


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        ([*NATIVE, USER, EVAL, MODULE, EVAL], "/home/u/model.py(42): attention"),
        ([*NATIVE, EINOPS, EVAL, USER, EVAL], "/home/u/model.py(42): attention"),
        ([*NATIVE, EVAL, ("<ipython-input-3-ab>", 2, "step"), EVAL], "<ipython-input-3-ab>(2): step"),
        ([*NATIVE, ("/tmp/ipykernel_7/12.py", 2, "<module>"), EVAL], "/tmp/ipykernel_7/12.py(2): <module>"),
        ([*NATIVE, ("/opt/env/bin/train", 3, "<module>"), EVAL], "/opt/env/bin/train(3): <module>"),
        ([*NATIVE, EINOPS, EVAL, MODULE], "/opt/env/lib/python3.12/site-packages/einops/einops.py(5): rearrange"),
        ([*NATIVE, NODE, ENGINE], "IndexBackward0"),
        ([*NATIVE, ("??", 0, "torch::autograd::AccumulateGrad::apply(int)"), ENGINE], "AccumulateGrad"),
        (
            [*NATIVE, (f"/tmp/torchinductor_u/ab/{HASH}.py", 9, "call"), EVAL, MODULE, EVAL, USER],
            f"/home/u/model.py(42): attention, generated code {HASH}.py(9): call",
        ),
        (
            [*NATIVE, ("<eval_with_key>.3", 7, "forward"), EVAL, USER],
            "/home/u/model.py(42): attention, generated code <eval_with_key>.3(7): forward",
        ),
        ([*NATIVE, (f"/cache/ab/{HASH}.py", 9, "call"), ENGINE], f"/cache/ab/{HASH}.py(9): call"),
        ([*NATIVE, ("_C.pyx", 0, "y"), ("/src/Python/ceval.c", 4000, "eval"), USER], "/home/u/model.py(42): attention"),
        ([*NATIVE, ("/usr/lib/python3.11/threading.py", 975, "run"), USER], "/home/u/model.py(42): attention"),
        (
            [*NATIVE, ("/usr/local/lib/python3.10/dist-packages/vllm/layer.py", 3, "forward"), USER],
            "/home/u/model.py(42): attention",
        ),
        (
            [*NATIVE, ("C:\\venv\\Lib\\site-packages\\torch\\functional.py", 5, "linear"), ("C:\\u\\m.py", 5, "f")],
            "C:\\u\\m.py(5): f",
        ),
        ([*NATIVE, ("C:\\Python311\\Lib\\threading.py", 5, "run"), ("C:\\u\\m.py", 5, "f")], "C:\\u\\m.py(5): f"),
        ([*NATIVE, ("??", 0, "torch::autograd::CppNode<fbgemm::Lookup>::apply(int)"), ENGINE], "Lookup"),
        ([*NATIVE[:3], ("??", 0, "at::_ops::empty::call"), ENGINE], "at::_ops::empty::call"),
        ([*NATIVE[:3], ("??", 0, "ncclInit()")], "ncclInit()"),
    ],
)
def test_the_user_s_line(stack: list[Frame], line: str) -> None:
    model = snapshot([event("alloc", 0, 512, frames=recorded(stack))])
    assert stack_words(model).line[0].as_py() == line


def test_the_final_state_states_the_size_of_a_block() -> None:
    """A rest of 1 MiB was too small to split: the block of a request of 2 MiB has 3 MiB."""
    mib = 1 << 20
    events = [event("segment_alloc", 0, 20 * mib), event("alloc", 0, 2 * mib)]
    (held,) = devices_of(snapshot(events, [segment(0, 20 * mib, [(3 * mib, "active_allocated")])]))
    assert levels_of(held).allocated.tolist() == [0, 0, 3 * mib]


def test_a_snapshot_of_a_failure_leads_with_it() -> None:
    stack = recorded([*NATIVE, ("oom.py", 9, "<module>")])
    events = [event("alloc", 0, 1024), event("oom", 0, 4096, frames=stack, device_free=512)]
    payloads = Allocations().part(snapshot(events), Params()).payloads
    answer: Any = payloads["answer"]
    (notice,) = answer.notices
    told = {figure.metric.key: figure.value for figure in notice.figures}
    assert notice.text.startswith("Out of memory at event {event_number}: {asked_bytes} requested by {asking_line}")
    assert (told["event_number"], told["asked_bytes"], told["allocated_bytes"]) == (1, 4096, 1024)
    assert told["asking_line"] == "oom.py(9): <module>"


def test_a_stack_of_many_events_is_not_written_out_for_each() -> None:
    """2,000 blocks of one stack of 5,000 frames (4,096 are kept): 88 MB of text, of which 4 MB are written."""
    stack = [{"filename": "/a/module.py", "line": i, "name": "f"} for i in range(5000)]
    model = snapshot([event("alloc", 512 * i, 512, frames=stack) for i in range(2000)])
    words, rows = stack_words(model), np.zeros(2000, np.int64)
    whole = words.text[0].as_py()
    assert whole.count(";") == 4095 and 2000 * len(whole) > MAX_COLUMN_BYTES
    texts = texts_of(words.text, rows)
    assert set(texts.to_pylist()) == {whole[:2000] + " ... (cut)"}
    assert set(texts_of(words.text, np.append(rows[:10], -1)).to_pylist()) == {whole, None}
    # More rows have less each, and at least 200 characters.
    assert len(texts_of(words.text, np.zeros(20_000, np.int64))[0].as_py()) == (8 << 20) // 20_000 + 10
    assert len(texts_of(words.text, np.zeros(100_000, np.int64))[0].as_py()) == 210


def test_short_texts_stay_beside_a_long_one() -> None:
    words = pa.array(["a" * 40_000, "short", None], pa.large_string())
    ids = np.array([0] * 2000 + [1, -1])
    assert texts_of(words, ids)[-2:].to_pylist() == ["short", None]


def test_many_stacks_of_few_long_frames_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """All orders of seven frames of 4,000 characters: 5,040 stacks of 28,000, which share 16 MiB: 3,328 for each."""
    monkeypatch.setattr("tb_plugin.analysis.snapshot.labels._MAX_STACKS_BYTES", 16 << 20)
    long = [{"filename": f"/{i}{1_990 * 'a'}.py", "line": i, "name": 2_000 * "g"} for i in range(7)]
    stacks = list(permutations(long))
    model = snapshot([event("alloc", 512 * i, 512, frames=list(stack)) for i, stack in enumerate(stacks)])
    words = stack_words(model)
    most = (16 << 20) // 5041
    assert {len(text) for text in words.text[:-1].to_pylist()} == {most + 10}
    assert {text[:2] for text in words.text[:-1].to_pylist()} == {f"/{i}" for i in range(7)}
    assert {len(line) for line in words.line[:-1].to_pylist()} == {2_000}
