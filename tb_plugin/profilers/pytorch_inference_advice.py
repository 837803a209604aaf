"""Advice for PyTorch inference."""

from __future__ import annotations

from tb_plugin.model.trace.recorder import Advice
from tb_plugin.profilers.pytorch_training_advice import AMP, DOCS, GRAPHS

_INFERENCE = ("PyTorch: inference_mode", f"{DOCS}/generated/torch.autograd.grad_mode.inference_mode.html")

INFERENCE = {
    "launch_bound.inference": Advice(
        'Launch many kernels at once: torch.compile(mode="reduce-overhead") captures them in CUDA graphs, and so does '
        "torch.cuda.graph() by hand for a few shapes to which inputs are padded. Requests that are put together in a batch "
        "share their launches.",
        GRAPHS,
    ),
    "python_bound.inference": Advice(
        'torch.compile(mode="reduce-overhead") leaves the Python between operators out, torch.inference_mode() the '
        "bookkeeping of autograd. Else take this work out of the loop, do it with tensors on the device, or in another "
        "process; requests that are put together in a batch share it.",
        (GRAPHS[1], _INFERENCE),
    ),
    "synchronising_calls.inference": Advice(
        "Take values from the device once, when the answer is complete (all of them in one .cpu()); in a loop that "
        "generates, look whether it has come to an end once in several tokens. Keep conditions on the device: torch.where() "
        "in place of nonzero() and boolean masks.",
        (("PyTorch: asynchronous execution", f"{DOCS}/notes/cuda.html#asynchronous-execution"),),
    ),
    "decode_gaps": Advice(
        "Let the server schedule the next step while the device works on this one (asynchronous or overlapping scheduling), "
        "sample on the device, and turn the new tokens into text in another process.",
    ),
    "view.backward.inference": Advice("Nothing, where a model is only run: a training has one."),
    "view.serving": Advice(
        "Servers mark their steps while they are profiled; TORCH_TRACE_STEPS takes a pattern of annotations of your own."
    ),
    "compilation.inference": Advice(
        "Set TORCH_LOGS=recompiles to see why; mark sizes that change with torch._dynamo.mark_dynamic() or "
        "torch.compile(dynamic=True), and run each shape once before requests are taken.",
        (("PyTorch: recompilation", f"{DOCS}/torch.compiler_troubleshooting.html"),),
    ),
    "recompilation.inference": Advice(
        "Set TORCH_LOGS=recompiles to see which guard failed; mark sizes that change with torch._dynamo.mark_dynamic(), or "
        "pad requests to a few sizes, and run each of them once before requests are taken.",
        (("PyTorch: recompilation", f"{DOCS}/torch.compiler_troubleshooting.html"),),
    ),
    "step_outliers.inference": Advice(
        "Take what happens now and then out of the step: log and export less often, and do other work, such as making "
        "tokens of texts, in a process of its own.",
        (_INFERENCE,),
    ),
    "low_utilization.inference": Advice(
        "Look for what the device waits for: input, launches from Python, or synchronisation. Requests that are put together "
        "in a batch give it more work per launch.",
        (_INFERENCE,),
    ),
    "memory_unused.inference": Advice(
        "Put more requests together in a batch, or give a cache of keys and values more room."
    ),
    "memory_limit.inference": Advice(
        "Run under torch.inference_mode(), which keeps no activations; load the weights in 16 bit or quantised; or take "
        "fewer or shorter requests at once.",
        (_INFERENCE,),
    ),
    "matrix_units.inference": Advice("Products run on them in 16 bit.", (AMP,)),
    "matrix_units.bf16.inference": Advice(
        "Load the weights in bfloat16 (model.to(torch.bfloat16)), or use torch.autocast."
    ),
    "matrix_units.fp16.inference": Advice("Load the weights in float16 (model.half()), or use torch.autocast."),
}
"""Advice that differs from training: no gradients, no optimizer, and requests instead of batches."""
