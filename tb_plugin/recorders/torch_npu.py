"""torch_npu's profiler: PyTorch's words, with the names that things have where the device is an Ascend NPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tb_plugin.recorders.pytorch import PYTORCH
from tb_plugin.trace.recorder import Advice, KernelFacts, ThreadRole

_ACTIVITY = "Add torch_npu.profiler.ProfilerActivity.NPU to profile(activities=...)."
_LEVEL = "Level1 records communication: experimental_config=_ExperimentalConfig(profiler_level=ProfilerLevel.Level1)."
_LAUNCHES = (
    "Let a second thread launch (TASK_QUEUE_ENABLE=2 in the environment), bind processes to cores (CPU_AFFINITY_CONF), make "
    "fewer and larger kernels: the fused operators and optimizers of torch_npu (npu_fusion_attention, NpuFusedAdamW)."
)
_RENAMED = {
    "torch.cuda.": "torch.npu.",
    "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_NPU_ALLOC_CONF",
    "CUDA graphs": "captured graphs",
}
"""torch_npu mirrors torch.cuda: the same call, under its own name."""
_LEFT_OUT = frozenset({"tf32_off", "matrix_units.tf32"})
"""What only devices of others have."""
_OTHERS = re.compile(r"(?i)cuda|nvidia|cudnn")
"""Of documents that are about devices of others."""
_OWN = {
    "device_events_missing": Advice(
        f"{_ACTIVITY} torch_npu.profiler.profiler.analyse() parses what was collected and not parsed."
    ),
    "view.kernels": Advice(_ACTIVITY),
    "view.launches": Advice(f"{_ACTIVITY} Level0 leaves the runtime's calls out: ProfilerLevel.Level1 records them."),
    "view.idle": Advice(_ACTIVITY),
    "view.operators": Advice("Add torch_npu.profiler.ProfilerActivity.CPU to profile(activities=...)."),
    "view.distributed": Advice(_LEVEL),
    "view.memory": Advice("torch_npu.profiler.profile(profile_memory=True) records them."),
    "launch_bound": Advice(_LAUNCHES),
    "launch_bound.inference": Advice(_LAUNCHES),
    "slow_first_step": Advice(
        "Let the profiler wait: torch_npu.profiler.schedule(wait=1, warmup=3, active=...). Operators that are compiled for "
        "each shape take their time once: torch.npu.set_compile_mode(jit_compile=False) runs the ready ones.",
    ),
    "redundant_copies.convolutions": Advice(
        "Keep tensors in the format that convolutions ask for (torch_npu.npu_format_cast): TransData kernels copy them else.",
    ),
    "matrix_units": Advice("Automatic mixed precision (torch.npu.amp) runs products in 16 bit, on the cube units."),
}


def _translated(advice: Mapping[str, Advice]) -> dict[str, Advice]:
    """What PyTorch's profiler advises, in torch_npu's names and without documents about CUDA."""
    made = {}
    for key, one in advice.items():
        todo = one.todo
        for cuda, npu in _RENAMED.items():
            todo = todo.replace(cuda, npu)
        references = tuple(each for each in one.references if not _OTHERS.search("".join(each)))
        made[key] = Advice(todo, references)
    return {key: one for key, one in made.items() if key not in _LEFT_OUT} | _OWN


KERNELS = KernelFacts(
    type=("Type",),
    # Level0 leaves the first one out, and the trace view says it of what it draws.
    core=("Accelerator Core", "Task Type"),
    shapes=("Input Shapes",),
    step=("Step Id",),
    # operator_details.csv counts these two as work with AI Core, and no MIX_AIC and MIX_AIV, which run there as well.
    counted=("AI_CORE", "AI_VECTOR_CORE"),
    counted_word="AI Core",
    first=("Type", "Accelerator Core", "Wait Time(us)", "Block Dim", "Block Num", "Input Shapes"),
)

TORCH_NPU = replace(
    PYTORCH,
    id="torch_npu",
    name="torch_npu's profiler",
    advice=_translated(PYTORCH.advice),
    packages=(*PYTORCH.packages, "torch_npu"),
    # The thread that launches what others queue.
    threads=(ThreadRole("Task queue", events=r"^Dequeue@"), *PYTORCH.threads),
    kernels=KERNELS,
    ranges_are_calls=True,
)
