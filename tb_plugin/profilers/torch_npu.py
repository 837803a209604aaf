"""torch_npu's profiler: PyTorch's words, with the names that things have where the device is an Ascend NPU."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from tb_plugin.model.trace.recorder import NO_ADVICE, Advice, KernelFacts, ThreadRole
from tb_plugin.profilers.pytorch import PYTORCH

_ACTIVITY = (
    "It is recorded with torch_npu.profiler.ProfilerActivity.NPU in profile(activities=...), and read from "
    "kernel_details.csv, trace_view.json or ascend_pytorch_profiler_*.db, which has to lie in the profile's folder."
)
_LEVEL = "Level1 records communication: experimental_config=_ExperimentalConfig(profiler_level=ProfilerLevel.Level1)."
_READ_FROM = "read from trace_view.json or ascend_pytorch_profiler_*.db, which has to lie in the profile's folder."
_ON_HOST = f"recorded with torch_npu.profiler.ProfilerActivity.CPU, and {_READ_FROM}"
_MEMORY = (
    "They are recorded with torch_npu.profiler.profile(profile_memory=True), and read from operator_memory.csv or "
    "ascend_pytorch_profiler_*.db, which has to lie in the profile's folder."
)
_LAUNCHES = (
    "Let the thread of the queue do more (TASK_QUEUE_ENABLE=2 in the environment; 0 turns the queue off, and so does "
    "ASCEND_LAUNCH_BLOCKING=1), leave operators uncompiled (torch.npu.set_compile_mode(jit_compile=False)), bind processes "
    "to cores (CPU_AFFINITY_CONF), and make fewer and larger kernels: the fused operators and optimizers of torch_npu "
    "(npu_fusion_attention, NpuFusedAdamW)."
)
_UNLAUNCHED = f"Launches are recorded with ProfilerActivity.CPU from ProfilerLevel.Level1 on, and {_READ_FROM}"
RENAMED = {
    "torch.cuda.": "torch.npu.",
    "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_NPU_ALLOC_CONF",
    "CUDA graphs": "captured graphs",
}
"""torch_npu mirrors torch.cuda: the same call, under its own name."""
_WITHOUT = dict.fromkeys(("tf32_off", "matrix_units.tf32"), NO_ADVICE)
"""What only devices of others have."""
_OTHERS = re.compile(r"(?i)cuda|nvidia|cudnn")
"""Documents that are about devices of others."""
_COMPILED = "torch.compile(backend=torchair.get_npu_backend())"
_OWN = {
    "device_events_missing": Advice(
        f"{_ACTIVITY} torch_npu.profiler.profiler.analyse() parses what was collected and not parsed."
    ),
    "view.kernels": Advice(_ACTIVITY),
    "view.launches": Advice(
        "They are recorded with ProfilerActivity.CPU and ProfilerActivity.NPU from ProfilerLevel.Level1 on, and "
        f"{_READ_FROM}"
    ),
    "view.idle": Advice(_ACTIVITY),
    "view.operators": Advice(f"They are {_ON_HOST}"),
    "view.stacks": Advice(f"They are {_ON_HOST} Python calls need with_stack=True as well."),
    "view.backward": Advice(f"Operators of steps that call backward() are {_ON_HOST}"),
    "view.distributed": Advice(_LEVEL),
    "view.memory": Advice(_MEMORY),
    "memory_missing": Advice(_MEMORY),
    "python_bound": Advice(
        "Take this work out of the loop, do it with tensors on the device, or in a worker of the DataLoader; "
        f"{_COMPILED} leaves the Python between operators out."
    ),
    "python_bound.inference": Advice(
        f"{_COMPILED} leaves the Python between operators out, torch.inference_mode() the bookkeeping of autograd. Else "
        "take this work out of the loop, or do it with tensors on the device; requests that are put together share it."
    ),
    "slow_first_step": Advice(
        "Let the profiler wait: torch_npu.profiler.schedule(wait=1, warmup=3, active=...). Operators that are compiled for "
        "each shape take their time once: torch.npu.set_compile_mode(jit_compile=False) runs the ready ones.",
    ),
    "matrix_alignment": Advice(
        "Pad the dimension to the next multiple of 16, the edge of what a cube unit multiplies at once: the vocabulary, "
        "the number of classes, the width of a layer, or the length of a batch (pad_to_multiple_of=16)."
    ),
    "unfused_attention": Advice(
        "Call torch_npu.npu_fusion_attention, or torch.nn.functional.scaled_dot_product_attention "
        '(attn_implementation="sdpa" in Transformers).'
    ),
    "unfused_optimizer": Advice(
        "Use an optimizer that updates all parameters at once: torch_npu.optim.NpuFusedAdamW and its likes, else "
        "foreach=True."
    ),
    "unfused_kernels": Advice(
        f"{_COMPILED} fuses such runs. Activations and norms that are written out often exist as one operator "
        "(nn.functional.gelu, torch_npu.npu_swiglu, torch_npu.npu_rms_norm)."
    ),
    "redundant_copies.convolutions": Advice(
        "Keep tensors in the format that convolutions ask for (torch_npu.npu_format_cast): TransData kernels copy them else.",
    ),
    "launch_bound": Advice(_LAUNCHES),
    "launch_bound.inference": Advice(_LAUNCHES),
    "unlaunched": Advice(f"{_UNLAUNCHED} What was queued before the recording has none."),
    "low_utilization.unlaunched": Advice(f"{_UNLAUNCHED} They tell what the device waits for."),
    "fallback_cores": Advice(
        "Give the operator types that AI cores have kernels for (int32 for int64, float32 for float64), use another operator "
        "for the same, or compute it once, outside of the loop. Newer versions of CANN have more kernels."
    ),
    "conversions": Advice(
        "Let tensors keep their layout: compare both settings of torch.npu.config.allow_internal_format, and give weights "
        "theirs once (torch_npu.npu_format_cast()). Leave out pairs of .transpose() and .contiguous(), and cast once: one "
        "torch.autocast around the pass, or model.to(torch.bfloat16)."
    ),
    "low_frequency": Advice(
        "Look at temperature and power of the device (npu-smi info -t temp, -t power), at its cooling, and at what else runs "
        "on the node. Compare the other ranks: one slow device slows all of them."
    ),
    "memory_bound": Advice(
        "Compute more with each byte: fused operators (npu_fusion_attention, npu_swiglu, npu_rms_norm, NpuFusedAdamW), 16 "
        "bit, a larger batch for products of matrices."
    ),
    "small_packets": Advice(
        "Send more at once: larger buckets (DistributedDataParallel(bucket_cap_mb=...), the bucket sizes of the training "
        "framework), one flat tensor for several small ones, fewer and larger pipeline messages."
    ),
    "matrix_units": Advice("Automatic mixed precision (torch.npu.amp) runs products in 16 bit, on the cube units."),
}


def _translated(advice: Mapping[str, Advice]) -> dict[str, Advice]:
    """What PyTorch's profiler advises, in torch_npu's names and without documents about CUDA."""
    made = {}
    for key, one in advice.items():
        todo = one.todo
        for cuda, npu in RENAMED.items():
            todo = todo.replace(cuda, npu)
        references = tuple(each for each in one.references if not _OTHERS.search("".join(each)))
        made[key] = Advice(todo, references)
    return made | _WITHOUT | _OWN


KERNELS = KernelFacts(
    type=("Type",),
    # Level0 leaves the first one out; types of tasks tell the second one.
    core=("Accelerator Core", "Core by Task Type"),
    shapes=("Input Shapes",),
    step=("Step Id",),
    # operator_details.csv counts these two as work with AI Core, and no MIX_AIC and MIX_AIV, which run there as well.
    counted=("AI_CORE", "AI_VECTOR_CORE", "AI_CORE or AI_VECTOR_CORE"),
    counted_word="AI Core",
    first=("Type", "Accelerator Core", "Wait Time(us)", "Block Dim", "Block Num", "Input Shapes"),
)

TORCH_NPU = replace(
    PYTORCH,
    id="torch_npu",
    name="torch_npu's profiler",
    advice=_translated(PYTORCH.advice),
    packages=(*PYTORCH.packages, "torch_npu"),
    numbers_operators=False,
    # The thread that launches what others queue.
    threads=(ThreadRole("Task queue", events=r"^Dequeue@"), *PYTORCH.threads),
    kernels=KERNELS,
    ranges_are_calls=True,
)
