"""The user's line of stacks as PyTorch records them by default: native frames around and between the Python ones."""

from __future__ import annotations

import pytest

from tb_plugin.analyses.snapshot.words import stack_words
from tests.snapshots import event, snapshot

Frame = tuple[str, int, str]

NATIVE: list[Frame] = [
    ("??", 0, "torch::unwind::unwind()"),
    ("memory_snapshot.cpp", 0, "torch::cuda::(anonymous namespace)::gather_with_cpp()"),
    ("CUDACachingAllocator.cpp", 0, "DeviceCachingAllocator::malloc(signed char, unsigned long, CUstream_st*)"),
    ("RegisterCUDA.cpp", 0, "wrapper_CUDA_empty"),
    ("??", 0, "at::_ops::empty::call"),
    ("", 0, "THPVariable_empty"),
]
EVAL: Frame = ("??", 0, "_PyEval_EvalFrameDefault")
TORCH: list[Frame] = [("/opt/env/lib/python3.12/site-packages/torch/nn/modules/module.py", 1750, "_call_impl"), EVAL]
TRAIN: list[Frame] = [EVAL, ("/home/u/train.py", 9, "<module>"), EVAL]
LINE: Frame = ("/home/u/model.py", 42, "attention")
OWN = "/home/u/model.py(42): attention"
THREAD: list[Frame] = [
    ("", 0, "torch::autograd::Node::operator()(std::vector<at::Tensor>&&)"),
    ("??", 0, "torch::autograd::Engine::thread_main()"),
    ("thread48.o", 0, "execute_native_thread_routine"),
]


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        ([*NATIVE, LINE, EVAL, *TORCH, *TRAIN], OWN),
        ([*NATIVE, ("eval_frame.c", 0, "dynamo_eval"), ("thread48.o", 0, "x"), ("_C.pyx", 0, "y"), LINE, *TRAIN], OWN),
        ([*NATIVE, ("/pytorch/aten/Loops.cuh", 120, "k"), ("/src/Python/ceval.c", 4000, "eval"), LINE, *TRAIN], OWN),
        ([*NATIVE, *TORCH, ("/usr/lib/python3.11/threading.py", 975, "run"), LINE, *TRAIN], OWN),
        ([*NATIVE, ("/usr/local/lib/python3.10/dist-packages/vllm/layer.py", 3, "forward"), LINE, *TRAIN], OWN),
        ([*NATIVE, ("/tmp/torchinductor_u/ab/cabc.py", 77, "call"), *TORCH, LINE, *TRAIN],
         f"{OWN}, generated code cabc.py(77): call"),
        ([*NATIVE, ("<eval_with_key>.3", 5, "forward"), *TORCH, LINE, *TRAIN],
         f"{OWN}, generated code <eval_with_key>.3(5): forward"),
        (
            [*NATIVE, ("C:\\venv\\Lib\\site-packages\\torch\\nn\\functional.py", 5, "linear"), ("C:\\u\\m.py", 5, "f")],
            "C:\\u\\m.py(5): f",
        ),
        ([*NATIVE, *TORCH, ("/tmp/ipykernel_77/123.py", 3, "<module>")], "/tmp/ipykernel_77/123.py(3): <module>"),
        ([*NATIVE, *TORCH, ("<ipython-input-3-ab>", 3, "<module>")], "<ipython-input-3-ab>(3): <module>"),
        # Nobody's own line: the package that was called, before PyTorch within it.
        (
            [*NATIVE, *TORCH, ("/opt/lib/python3.12/site-packages/trl/trainer.py", 7, "step"), EVAL],
            "/opt/lib/python3.12/site-packages/trl/trainer.py(7): step",
        ),
        ([*NATIVE, ("??", 0, "torch::autograd::generated::IndexBackward0::apply(std::vector&&)"), *THREAD],
         "IndexBackward0"),
        ([*NATIVE, ("??", 0, "torch::autograd::AccumulateGrad::apply(std::vector&&)"), *THREAD], "AccumulateGrad"),
        ([*NATIVE, ("??", 0, "torch::autograd::CppNode<fbgemm::Lookup>::apply(std::vector&&)"), *THREAD],
         "Lookup"),
        ([*NATIVE, *THREAD], "at::_ops::empty::call"),
        ([*NATIVE[:3], ("??", 0, "ncclInit()")], "ncclInit()"),
    ],
)  # fmt: skip
def test_the_line_that_a_person_needs(stack: list[Frame], line: str) -> None:
    frames = [{"filename": file, "line": number, "name": name} for file, number, name in stack]
    words = stack_words(snapshot([event("alloc", 512, 512, frames=frames)]))
    assert words.line[0].as_py() == line
