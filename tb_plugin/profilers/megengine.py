"""MegEngine's profiler and the advice for its training runs."""

from __future__ import annotations

import re

from tb_plugin.model.trace.recorder import Advice, HostNames, OperatorNames, Recorder, StageFrames

COLLECTIVE = re.compile(r"^(?:CollectiveComm|RemoteSend|RemoteRecv)$")
"""Communication operators."""

_DOCS = "https://megengine.org.cn/doc/stable/en"
_PROFILER = ("MegEngine: profiler", f"{_DOCS}/user-guide/tools/profiler.html")
_DISTRIBUTED = ("MegEngine: distributed training", f"{_DOCS}/user-guide/model-development/distributed-training.html")
_AMP = ("MegEngine: AMP", f"{_DOCS}/user-guide/model-development/amp/index.html")
_DTR = ("MegEngine: DTR", f"{_DOCS}/user-guide/model-development/dtr/index.html")

_TRACE = (
    "Make the step a static graph (megengine.jit.trace): what Python does for each operator is then done once. Dispatch "
    "fewer, larger operators: fused ones, no reshape that changes nothing, a larger batch."
)

RECORDING = {
    "device_events_missing": Advice("Profiler(profile_device=True) records them."),
    "steps_missing": Advice("Call profiler.step() after each iteration to see step times."),
    "shapes_missing": Advice("Record with a release that writes the inputs of operators (1.4 and newer)."),
    "stacks_missing": Advice("Profiler(with_backtrace=True) records them."),
    "memory_missing": Advice("Profiler(sample_rate=1) samples the device's memory at each operator."),
    "memory_levels_only": Advice(
        "memory_flow.svg (Profiler(formats=...)) holds each tensor, when it lived and where. "
        "Where it lies beside the timeline, the page Memory leads to it."
    ),
    "view.kernels": Advice(
        "Profiler(profile_device=True) records the work of devices, enable_cupti=1 kernels by their names."
    ),
    "view.launches": Advice("Profiler(profile_device=True) records the launches."),
    "view.idle": Advice("Profiler(profile_device=True) records when devices work."),
    "view.operators": Advice("Start the profiler before the operators run."),
    "view.stacks": Advice("Profiler(with_scopes=True) records scopes of modules and functions."),
    "view.modules": Advice("Profiler(with_scopes=True) records scopes of functions; modules open scopes of their own."),
    "view.backward": Advice("Record steps that call GradManager.backward()."),
    "view.phases": Advice("Wrap parts of the step in `with megengine.utils.profiler.scope('name'):`."),
    "view.memory": Advice(
        "The timeline holds what the device has in use (alloc_mem); memory_flow.svg holds the tensors."
    ),
    "view.distributed": Advice("Record a job of several processes: megengine.distributed."),
    "view.timeline": Advice("Record more than the profiler itself."),
}
"""Advice for better recordings."""

TRAINING = {
    "synchronising_calls": Advice(
        "Take values from the device (.numpy(), .item(), printing a loss) once in many steps, and after what does not need "
        "them was dispatched: until then nothing is queued.",
        (_PROFILER,),
    ),
    "launch_bound": Advice(_TRACE, (_PROFILER,)),
    "python_bound": Advice(_TRACE, (_PROFILER,)),
    "small_batch": Advice("Use a larger batch where memory allows, and see whether it still converges."),
    "low_utilization": Advice("See what the device waits for: Idle time tells it cause by cause."),
    "redundant_reshapes": Advice(
        "Leave the reshape out: the operator that reads the tensor can read the shape that it has. Of several in a row keep "
        "the last.",
        (_PROFILER,),
    ),
    "serial_collectives": Advice(
        "Let the gradients be summed on a stream of their own: distributed.make_allreduce_cb in GradManager.attach() does so "
        "for each gradient when it is there, and packs small ones.",
        (_DISTRIBUTED,),
    ),
    "small_collectives": Advice(
        "Sum many gradients at once: make_allreduce_cb packs them (param pack).", (_DISTRIBUTED,)
    ),
    "communication": Advice("", (_DISTRIBUTED,)),
    "matrix_units": Advice("Train with numbers of 16 bit: megengine.amp.autocast and GradScaler.", (_AMP,)),
    "tf32_off": Advice("Train with numbers of 16 bit: megengine.amp.autocast and GradScaler.", (_AMP,)),
    "memory_limit": Advice("Let tensors be computed again instead of kept: megengine.dtr.enable().", (_DTR,)),
    "profiler_overhead": Advice("Leave the first step out, in which the profiler starts: choose the steps after it."),
    "data_loading": Advice("Give the DataLoader more workers (num_workers), and do less for each sample."),
}
"""Advice for findings."""

STAGES = StageFrames(
    clear=r"^clear_grad$|: clear_grad$",
    step=r"^step$|[/\\]optimizer[/\\][^()]*\(\d+\): step$",
    backward=r"^backward$|: backward$",
    forward=r"module[/\\]module\.py\(\d+\): __call__$",
    setup=r"(?:: |\.)__init__$",
    data=r"megengine/data/",
)
"""Training stages by MegEngine's scopes and backtrace frames."""

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
