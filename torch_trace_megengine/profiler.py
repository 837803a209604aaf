"""MegEngine's profiler and the advice for its training runs."""

from __future__ import annotations

import re

from tb_plugin.model.trace.recorder import Advice, HostNames, OperatorNames, Recorder, StageFrames

COLLECTIVE = re.compile(r"^(?:CollectiveComm|RemoteSend|RemoteRecv)$")

_DOCS = "https://megengine.org.cn/doc/stable/en"
_PROFILER = ("MegEngine: profiler", f"{_DOCS}/user-guide/tools/profiler.html")
_DISTRIBUTED = ("MegEngine: distributed training", f"{_DOCS}/user-guide/model-development/distributed-training.html")
_AMP = ("MegEngine: AMP", f"{_DOCS}/user-guide/model-development/amp/index.html")
_DTR = ("MegEngine: DTR", f"{_DOCS}/user-guide/model-development/dtr/index.html")

_TRACE = (
    "Turn the step into a static graph (megengine.jit.trace), so that Python runs only once. Dispatch fewer, "
    "larger operators: use fused operators, remove reshapes that change nothing, or increase the batch."
)

RECORDING = {
    "device_events_missing": Advice("Profiler(profile_device=True) records device events."),
    "steps_missing": Advice("Call profiler.step() after each iteration to see step times."),
    "shapes_missing": Advice("Record with MegEngine 1.4 or newer, which writes operator inputs."),
    "stacks_missing": Advice("Profiler(with_backtrace=True) records stacks."),
    "memory_missing": Advice("Profiler(sample_rate=1) samples the device's memory at each operator."),
    "memory_levels_only": Advice(
        "memory_flow.svg (Profiler(formats=...)) shows the lifetime and location of each tensor. The Memory "
        "page links to this file if it is in the same folder as the timeline."
    ),
    "view.kernels": Advice("Profiler(profile_device=True) records device work; enable_cupti=1 adds kernel names."),
    "view.launches": Advice("Profiler(profile_device=True) records the launches."),
    "view.idle": Advice("Profiler(profile_device=True) records device activity."),
    "view.operators": Advice("Start the profiler before the operators run."),
    "view.stacks": Advice("Profiler(with_scopes=True) records scopes of modules and functions."),
    "view.modules": Advice("Modules open scopes by default. Profiler(with_scopes=True) adds scopes of functions."),
    "view.backward": Advice("Record steps that call GradManager.backward()."),
    "view.phases": Advice("Wrap parts of the step in megengine.utils.profiler.scope('name')."),
    "view.memory": Advice(
        "The timeline contains the device memory in use (alloc_mem). memory_flow.svg contains the tensors."
    ),
    "view.distributed": Advice("Record a job with several processes: megengine.distributed."),
    "view.timeline": Advice("Record the program, not only the profiler."),
}

TRAINING = {
    "synchronising_calls": Advice(
        "Read device values (.numpy(), .item(), print(loss)) only every N steps. First dispatch the work "
        "that does not need these values, so that the device has work queued.",
        (_PROFILER,),
    ),
    "launch_bound": Advice(_TRACE, (_PROFILER,)),
    "python_bound": Advice(_TRACE, (_PROFILER,)),
    "small_batch": Advice("If memory allows, try a larger batch and check convergence."),
    "low_utilization": Advice("Open the page GPU idle to see what the device waits for."),
    "redundant_reshapes": Advice(
        "Remove the reshape: the next operator can use the existing shape. In a sequence of reshapes, keep only "
        "the last one.",
        (_PROFILER,),
    ),
    "serial_collectives": Advice(
        "Reduce gradients on a separate stream. With distributed.make_allreduce_cb in GradManager.attach(), "
        "each gradient is reduced as soon as it exists, and small gradients are packed together.",
        (_DISTRIBUTED,),
    ),
    "small_collectives": Advice(
        "Reduce many gradients at once: make_allreduce_cb packs gradients together (param pack).", (_DISTRIBUTED,)
    ),
    "communication": Advice("", (_DISTRIBUTED,)),
    "matrix_units": Advice("Train in 16 bit: megengine.amp.autocast and GradScaler.", (_AMP,)),
    "tf32_off": Advice("Train in 16 bit: megengine.amp.autocast and GradScaler.", (_AMP,)),
    "memory_limit": Advice("Recompute tensors instead of storing them: megengine.dtr.enable().", (_DTR,)),
    "profiler_overhead": Advice("The profiler starts in the first step. Select only the steps after the first one."),
    "data_loading": Advice("Use more DataLoader workers (num_workers), and reduce the work per sample."),
}

STAGES = StageFrames(
    clear=r"^clear_grad$|: clear_grad$",
    step=r"^step$|[/\\]optimizer[/\\][^()]*\(\d+\): step$",
    backward=r"^backward$|: backward$",
    forward=r"module[/\\]module\.py\(\d+\): __call__$",
    setup=r"(?:: |\.)__init__$",
    data=r"megengine/data/",
)

OPERATORS = OperatorNames(
    product=r"^(?:MatrixMul|BatchedMatrixMul)$",
    batched_product=r"^BatchedMatrixMul$",
    single=r"^Float32$",
    half=r"^B?Float16$",
    softmax=r"^Softmax(?:Backward)?$",
    going_back=r"^backward$",
    ending=r"^(?:step|clear_grad)$",
    casting=r"^TypeCvt(?:V2)?$",
    learning=r"Backward|^(?:backward|clear_grad)$",
    reducing=r"^CollectiveComm$",
    reshaping=r"^Reshape$",
)

MEGENGINE = Recorder(
    "megengine",
    "MegEngine's profiler",
    {**TRAINING, **RECORDING},
    (),
    ("megengine",),
    STAGES,
    HostNames(handing_over=r"^TensorWaitProp$"),
    operators=OPERATORS,
)
