"""PyTorch's profiler, its threads and stages."""

from __future__ import annotations

from msgspec.structs import replace

from tb_plugin.model.trace.recorder import (
    NO_ADVICE,
    Advice,
    HostNames,
    OperatorNames,
    Recorder,
    StageFrames,
    ThreadRole,
)
from tb_plugin.profilers.generated_kernels import COMPILED
from tb_plugin.profilers.pytorch_inference_advice import INFERENCE
from tb_plugin.profilers.pytorch_parallel import PARALLEL
from tb_plugin.profilers.pytorch_training_advice import TRAINING
from tb_plugin.profilers.serving import ITERATING, MARKS, SERVING

_DEVICE_ACTIVITY = "Add ProfilerActivity.CUDA (ROCm as well), XPU or MTIA to profile(activities=...)."
_MEMORY = "profile(profile_memory=True) records allocator events."

RECORDING = {
    "device_events_missing": Advice(
        "Add ProfilerActivity.CUDA (or XPU, MTIA) to profile(activities=...). Check the job's log for messages from Kineto "
        "or CUPTI: another profiler may have blocked the device."
    ),
    "unlaunched": Advice(
        "Device work without launches is normal if the profiler started while work was queued, or recorded no host events. "
        "Use schedule(warmup=1) or more, and record ProfilerActivity.CPU too."
    ),
    "capture_missing": Advice(
        "Record the graph capture too. Put the trace of the capture into a folder capture_traces/ next to this trace, or "
        "select it under Capture (--capture)."
    ),
    "external_ids_disagree": Advice(
        "Torch Trace uses the operator around the launch. PyTorch 2.0 to 2.4 is known to write wrong ids."
    ),
    "steps_missing": Advice("Call prof.step() after each iteration (with a schedule) to see step times."),
    "steps_missing.server": Advice("Set TORCH_TRACE_STEPS to a pattern that matches the server's step annotations."),
    "steps_incomplete": Advice("Use a longer active phase in the schedule, or synchronize before the last step ends."),
    "shapes_missing": Advice("profile(record_shapes=True) records shapes."),
    "stacks_missing": Advice("profile(with_stack=True) records stacks."),
    "memory_missing": Advice(_MEMORY),
    "memory_incomplete": Advice("PyTorch 1.10 and newer record both."),
    "categories_missing": Advice(
        "_record_memory_history(stacks='python') records stacks. Start before building the model, and record a whole step."
    ),
    "health.python": Advice("with_stack=False turns off the recording of Python calls."),
    "view.kernels": Advice(_DEVICE_ACTIVITY),
    "view.launches": Advice(_DEVICE_ACTIVITY),
    "view.idle": Advice(_DEVICE_ACTIVITY),
    "view.operators": Advice("Add ProfilerActivity.CPU to profile(activities=...)."),
    "view.stacks": Advice("Add ProfilerActivity.CPU to profile(activities=...), and with_stack=True for Python calls."),
    "view.modules": Advice(
        "profile(with_stack=True), tb_plugin.annotate(model) or the PyTorch Lightning profiler records modules."
    ),
    "view.backward": Advice("Record operators (ProfilerActivity.CPU) in steps that call backward()."),
    "view.phases": Advice("Wrap parts of the step in torch.profiler.record_function('name')."),
    "view.memory": Advice(_MEMORY),
    "view.distributed": Advice("Record a job with several processes: torch.distributed (DDP, FSDP, ...)."),
    "history_missing": Advice("Call torch.cuda.memory._record_memory_history() before training starts."),
    "history_cut": Advice("Start recording earlier."),
    "history_cut.stated": Advice(
        "Record more events: _record_memory_history(max_entries=...). Starting earlier would not help."
    ),
    "snapshot_stacks_missing": Advice("Record with _record_memory_history(context='all', stacks='all')."),
    "view.allocation_stacks": Advice("_record_memory_history(stacks='python') records stacks."),
    "view.growth": Advice("Call torch.cuda.memory._record_memory_history() before training starts."),
    "view.timeline": Advice("Record the program, not only the profiler."),
}

OTHER_DEVICES = dict.fromkeys(
    ("small_packets", "redundant_reshapes", "fallback_cores", "conversions", "low_frequency", "memory_bound"), NO_ADVICE
)
"""Rules that apply only to traces of NPUs or MegEngine."""

_DATA = r"torch/utils/data/_utils"
THREADS = (
    ThreadRole("Autograd", r"^pt_autograd", r"^autograd::engine::|^torch::autograd::"),
    ThreadRole("Data loader", r"^pt_data_worker", _DATA + r"/worker\.py\("),
    ThreadRole("Pin memory", r"^pt_data_pin", _DATA + r"/pin_memory\.py\("),
    ThreadRole("NCCL watchdog", r"^pt_nccl_watch", r"EventQuery$", all_must_match=True),
    ThreadRole("NCCL heartbeat", r"^pt_nccl_heart"),
    ThreadRole("Gloo", r"^pt_gloo", r"^gloo:"),
    ThreadRole("TCP store", r"^pt_tcpstore"),
    ThreadRole("Thread pool", r"^pt_thread_pool"),
)
"""Roles of PyTorch's threads, by thread name (PyTorch 2.6 and newer) or by the names of their events."""

_OPTIMIZER = (
    r"torch[/\\]optim[/\\][^()]*\(\d+\): "
    r"|[/\\]optim(?:izers?)?\.py\(\d+\): [^<]"
    r"|(?:[/\\]optim(?:izers?)?|deepspeed[/\\](?:ops|runtime))[/\\][^()]*\(\d+\): (?:.*\.)?step$"
)
"""Frames of optimizer steps: PyTorch's optimizers, modules named ``optim``, and ``step`` methods in folders named
``optim`` or ``optimizers``, as in Apex.
"""
STAGES = StageFrames(
    clear=r"(?:: |\.)zero_grad$",
    step=_OPTIMIZER,
    # Autograd threads, custom functions and checkpoint hooks have no enclosing engine call.
    backward=r": _engine_run_backward$|(?:: |\.)backward$|torch::autograd::(?:python::Python)?Engine::"
    r"|torch/utils/checkpoint\.py\(\d+\): (?:unpack_hook|recompute_fn)$",
    # Modules with hooks call their forward from an inner function. Names may be qualified.
    forward=r"torch[/\\]nn[/\\]modules[/\\]module\.py\(\d+\): (?:.*\.)?(?:_(?:wrapped_)?call_impl|inner)$|: nn\.Module: ",
    setup=r"(?:: |\.)__init__$",
    data=r"torch/utils/data/|/data_?loaders?\.py\(|"
    r"(?:: |\.)(?:to_device|send_to_device|batch_to_device|move_data_to_device|_prepare_inputs?)$",
    # Non-reentrant: checked with a real trace. Reentrant, Megatron and DeepSpeed: from their source code only.
    recomputing=r"torch[/\\]utils[/\\]checkpoint\.py\(\d+\): (?:recompute_fn|(?:CheckpointFunction\.)?backward)$"
    r"|(?:tensor_parallel[/\\]random|activation_checkpointing[/\\]checkpointing)\.py\(\d+\): "
    r"(?:CheckpointFunction\.)?backward$",
)

_TRITON = (
    r"triton[/\\](?:compiler[/\\]compiler|runtime[/\\](?:autotuner|jit))\.py\(\d+\): (?:compile|_bench|_do_compile)$"
)
HOST = HostNames(
    # Dynamo's timed phases end in "(dynamo_timed)"; older releases write the bare names.
    compiling=r"\(dynamo_timed\)$|^entire_(?:frame|backward)_compile$|^inductor_compile$|^CachingAutotuner\."
    r"|torch[/\\]_dynamo[/\\]convert_frame\.py\(\d+\): _compile$"
    r"|torch[/\\]_inductor[/\\]compile_fx\.py\(\d+\): compile_fx\w*$"
    r"|torch[/\\]_inductor[/\\]runtime[/\\]triton_heuristics\.py\(\d+\): (?:precompile|benchmark_all_configs|autotune_\w+)$"
    rf"|{_TRITON}",
    collecting=r"^(?:Python )?GC$|^<built-in (?:function|method) collect( of module .*)?>$",
    profiling=r"torch[/\\]profiler[/\\]profiler\.py\(\d+\): ",
    loading=r"^enumerate\(DataLoader\)#_SingleProcess",
    awaiting=r"^enumerate\(DataLoader\)#_MultiProcessing",
    # Operators with a deterministic device implementation, from PyTorch's list.
    deterministic=r"^(?:Gather|Scatter\w*|Index\w*|Put|Take\w*|RepeatInterleave|Embedding\w*|Cumsum|\w+Pad\dD|Upsample\w+)"
    r"Backward\d*$",
)

OPERATORS = OperatorNames(
    product=r"^aten::b?mm$",
    added_product=r"^aten::(?:addmm|baddbmm)$",
    batched_product=r"^aten::b(?:addb)?mm$",
    single=r"^float$",
    half=r"^c10::(?:BFloat16|Half)$",
    list_element=r"CatArrayBatchedCopy\w*<(?:[\w:() ]*OpaqueType<(\d+)u?>|([\w:]+)\b)"
    r"|multi_tensor_apply_kernel<.*?Functor<(double|float|c10::Half|c10::BFloat16|long|int), \d",
    softmax=r"^aten::_softmax(?:_backward_data)?$",
    updating=r"^Optimizer\.step#",
    casting=r"^aten::_to_copy$",
    learning=r"(?i)backward|[dw]grad|bprop|AccumulateGrad|zero_grad|^Optimizer\.",
    laying_out=r"^aten::(?:contiguous|reshape)$",
    # The name in torch.utils.checkpoint, Megatron, DeepSpeed and fairscale, from their source code only.
    recomputing=r"^(?:autograd::engine::evaluate_function: )?\w*CheckpointFunctionBackward\d*$",
)

PYTORCH = Recorder(
    "pytorch",
    "PyTorch's profiler",
    {**TRAINING, **INFERENCE, **RECORDING, **OTHER_DEVICES},
    THREADS,
    ("torch",),
    STAGES,
    HOST,
    OPERATORS,
    steps=SERVING,
    iterating=ITERATING,
    marks=MARKS,
    compiled=COMPILED,
    parallel=PARALLEL,
    numbers_operators=True,
)

_AS_JSON = "Export the trace as JSON, to a path without .pftrace"
PYTORCH_PACKETS = replace(
    PYTORCH,
    id="pytorch_packets",
    advice={
        **PYTORCH.advice,
        "format_lacks": Advice(f"{_AS_JSON}, if you need this data."),
        "memory_missing": Advice(
            f"{_AS_JSON}: trace packets contain no allocator events, even with profile(profile_memory=True)."
        ),
        "view.memory": Advice(
            f"{_AS_JSON}, with profile(profile_memory=True). Trace packets never contain allocator events."
        ),
    },
    lacks="allocator events, copy directions (findings about host-device copies are skipped), static shared memory, or "
    "machine, job and profiler options",
)
"""PyTorch's profiler with trace packets as its output format (Cuspy)."""

_LEGACY = Advice("Device rows of the legacy autograd profiler appear in the timeline only. Record with torch.profiler.")
PYTORCH_LEGACY = replace(
    PYTORCH,
    id="pytorch_legacy",
    advice={
        **PYTORCH.advice,
        **dict.fromkeys(("device_events_missing", "view.kernels", "view.launches", "view.idle"), _LEGACY),
    },
)
"""``torch.autograd.profiler(use_cuda=True, use_kineto=False)``. It records device time per operator."""
