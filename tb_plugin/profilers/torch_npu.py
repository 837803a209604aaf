"""torch_npu's profiler for Ascend NPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from tb_plugin.model.trace.recorder import NO_ADVICE, Advice, KernelFacts, ThreadRole
from tb_plugin.profilers.pytorch import PYTORCH

_ACTIVITY = (
    "Device work is recorded with torch_npu.profiler.ProfilerActivity.NPU in "
    "profile(activities=...) and read from kernel_details.csv, trace_view.json or "
    "ascend_pytorch_profiler_*.db in the profile's folder."
)
_LEVEL = "Level1 records communication: experimental_config=_ExperimentalConfig(profiler_level=ProfilerLevel.Level1)."
_READ_FROM = "read from trace_view.json or ascend_pytorch_profiler_*.db in the profile's folder."
_ON_HOST = f"recorded with torch_npu.profiler.ProfilerActivity.CPU, and {_READ_FROM}"
_MEMORY = (
    "Allocator events are recorded with torch_npu.profiler.profile(profile_memory=True). They are read "
    "from operator_memory.csv or ascend_pytorch_profiler_*.db in the profile's folder."
)
_FORMATS = Advice(
    "Keep tensors in the format that convolutions need (torch_npu.npu_format_cast). Otherwise TransData kernels convert "
    "the tensors."
)
_LAUNCHES = (
    "Set TASK_QUEUE_ENABLE=2, so that the queue thread does more of the work. TASK_QUEUE_ENABLE=0 or "
    "ASCEND_LAUNCH_BLOCKING=1 turns the queue off. Disable operator compilation "
    "(torch.npu.set_compile_mode(jit_compile=False)), and bind processes to cores (CPU_AFFINITY_CONF). "
    "Use fewer, larger kernels: torch_npu's fused operators and optimizers (npu_fusion_attention, "
    "NpuFusedAdamW)."
)
_UNLAUNCHED = f"Launches are recorded with ProfilerActivity.CPU at ProfilerLevel.Level1 or higher, and {_READ_FROM}"
RENAMED = {
    "torch.cuda.": "torch.npu.",
    "PYTORCH_CUDA_ALLOC_CONF": "PYTORCH_NPU_ALLOC_CONF",
    "CUDA graphs": "captured graphs",
}
"""CUDA names in the advice, with the NPU names that replace them. torch_npu mirrors torch.cuda."""
_WITHOUT = dict.fromkeys(("tf32_off", "matrix_units.tf32"), NO_ADVICE)
_OTHERS = re.compile(r"(?i)cuda|nvidia|cudnn")
_COMPILED = "torch.compile(backend=torchair.get_npu_backend())"
_OWN = {
    "device_events_missing": Advice(f"{_ACTIVITY} torch_npu.profiler.profiler.analyse() parses collected raw data."),
    "view.kernels": Advice(_ACTIVITY),
    "view.launches": Advice(
        "Launches are recorded with ProfilerActivity.CPU and ProfilerActivity.NPU at ProfilerLevel.Level1 or higher, and "
        f"{_READ_FROM}"
    ),
    "view.idle": Advice(_ACTIVITY),
    "view.operators": Advice(f"Operators are {_ON_HOST}"),
    "view.stacks": Advice(f"Operators are {_ON_HOST} Python calls also need with_stack=True."),
    "view.backward": Advice(f"Operators of steps that call backward() are {_ON_HOST}"),
    "view.distributed": Advice(_LEVEL),
    "view.memory": Advice(_MEMORY),
    "memory_missing": Advice(_MEMORY),
    "python_bound": Advice(
        f"Move this work out of the loop, to tensors on the device, or to a DataLoader worker. {_COMPILED} removes Python "
        "between operators."
    ),
    "python_bound.inference": Advice(
        f"{_COMPILED} removes Python between operators; torch.inference_mode() removes autograd overhead. Otherwise move "
        "this work out of the loop, or to tensors on the device. With larger batches, more inputs share this work."
    ),
    "slow_first_step": Advice(
        "Skip the first steps: torch_npu.profiler.schedule(wait=1, warmup=3, active=...). Operators are compiled once per "
        "shape; torch.npu.set_compile_mode(jit_compile=False) uses precompiled operators."
    ),
    "matrix_alignment": Advice(
        "Pad the dimension to a multiple of 16, the tile size of a cube unit: vocabulary, number of classes, layer width, "
        "or sequence length (pad_to_multiple_of=16)."
    ),
    "unfused_attention": Advice(
        "Call torch_npu.npu_fusion_attention, or torch.nn.functional.scaled_dot_product_attention "
        '(attn_implementation="sdpa" in Transformers).'
    ),
    "unfused_optimizer": Advice("Use a fused optimizer such as torch_npu.optim.NpuFusedAdamW, or foreach=True."),
    "unfused_kernels": Advice(
        f"{_COMPILED} fuses such sequences of kernels. Many activations and norms also exist as one operator "
        "(nn.functional.gelu, torch_npu.npu_swiglu, torch_npu.npu_rms_norm)."
    ),
    "redundant_copies.convolutions": _FORMATS,
    "redundant_copies.convolutions.miopen": _FORMATS,
    "launch_bound": Advice(_LAUNCHES),
    "launch_bound.inference": Advice(_LAUNCHES),
    "unlaunched": Advice(f"{_UNLAUNCHED} Work queued before the recording has no recorded launch."),
    "low_utilization.unlaunched": Advice(f"{_UNLAUNCHED} Launches show what the device waits for."),
    "fallback_cores": Advice(
        "Use types that AI cores support (int32 instead of int64, float32 instead of float64), or another operator. Or "
        "compute the result once, outside the loop. Newer versions of CANN support more operators on AI cores."
    ),
    "conversions": Advice(
        "Keep tensor layouts constant: compare both settings of torch.npu.config.allow_internal_format, and convert weights "
        "once (torch_npu.npu_format_cast()). Remove pairs of .transpose() and .contiguous(). Cast once: one torch.autocast "
        "around the pass, or model.to(torch.bfloat16)."
    ),
    "low_frequency": Advice(
        "Check temperature and power (npu-smi info -t temp, -t power), cooling, and other processes on the node. Compare "
        "the other ranks: one slow device slows down all of them."
    ),
    "memory_bound": Advice(
        "Compute more per byte: use fused operators (npu_fusion_attention, npu_swiglu, npu_rms_norm, NpuFusedAdamW), 16 "
        "bit, or a larger batch for matmuls."
    ),
    "small_packets": Advice(
        "Send more data at once: use larger buckets (DistributedDataParallel(bucket_cap_mb=...) or the training framework's "
        "setting). Merge small tensors into one flat tensor, and use fewer, larger pipeline messages."
    ),
    "matrix_units": Advice("Automatic mixed precision (torch.npu.amp) runs matmuls in 16 bit on the cube units."),
}


def _translated(advice: Mapping[str, Advice]) -> dict[str, Advice]:
    made = {}
    for key, one in advice.items():
        todo, snippet = one.todo, one.snippet
        for cuda, npu in RENAMED.items():
            todo, snippet = todo.replace(cuda, npu), snippet.replace(cuda, npu)
        references = tuple(each for each in one.references if not _OTHERS.search("".join(each)))
        made[key] = Advice(todo, references, snippet)
    return made | _WITHOUT | _OWN


KERNELS = KernelFacts(
    type=("Type",),
    # Level0 omits the first one. The second one follows from task types.
    core=("Accelerator Core", "Core by Task Type"),
    shapes=("Input Shapes",),
    step=("Step Id",),
    # operator_details.csv counts these as AI Core work, but not MIX_AIC and MIX_AIV, which also run there.
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
    # This thread launches operators queued by other threads.
    threads=(ThreadRole("Task queue", events=r"^Dequeue@"), *PYTORCH.threads),
    kernels=KERNELS,
    ranges_are_calls=True,
)
