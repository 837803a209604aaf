"""Advice for PyTorch inference."""

from __future__ import annotations

from tb_plugin.model.trace.recorder import Advice
from tb_plugin.profilers.pytorch_training_advice import AMP, DOCS, GRAPHS

_INFERENCE = ("PyTorch: inference_mode", f"{DOCS}/generated/torch.autograd.grad_mode.inference_mode.html")

INFERENCE = {
    "launch_bound.inference": Advice(
        (
            'Launch many kernels at once with CUDA graphs: torch.compile(mode="reduce-overhead"), or '
            "torch.cuda.graph() with inputs padded to a few shapes. With larger batches, more inputs "
            "share each launch."
        ),
        GRAPHS,
        snippet='model = torch.compile(model, mode="reduce-overhead")',
    ),
    "python_bound.inference": Advice(
        (
            'torch.compile(mode="reduce-overhead") removes Python between operators; '
            "torch.inference_mode() removes autograd overhead. Otherwise move this work out of the loop, "
            "to tensors on the device, or to another process. With larger batches, more inputs share "
            "this work."
        ),
        (GRAPHS[1], _INFERENCE),
        snippet='model = torch.compile(model, mode="reduce-overhead")\n'
        "with torch.inference_mode():\n"
        "    out = model(x)",
    ),
    "synchronising_calls.inference": Advice(
        "Read device values once, when the response is complete, with a single .cpu(). In a generation loop, check for "
        "end-of-sequence every few tokens. Keep conditions on the device: torch.where() instead of nonzero() and boolean "
        "masks.",
        (("PyTorch: asynchronous execution", f"{DOCS}/notes/cuda.html#asynchronous-execution"),),
        snippet="tokens = torch.stack(outputs).cpu()  # one copy per response",
    ),
    "communication.inference": Advice("", (("PyTorch: distributed", f"{DOCS}/distributed.html"),)),
    "redundant_casts.inference": Advice(
        "Cast each tensor once and reuse the result, or load the model in 16 bit: model.to(torch.bfloat16). Remove .float() "
        "followed by .half().",
        (AMP,),
        snippet="model = model.to(torch.bfloat16)",
    ),
    "slow_matrix_products.small.inference": Advice(
        "Batch more requests or tokens per call. Merge layers that read the same input (query, key and value; gate and up) "
        "into one layer.",
        snippet="qkv = nn.Linear(width, 3 * width)  # instead of three layers",
    ),
    "decode_gaps": Advice(
        "Use asynchronous (overlapping) scheduling, so that the server prepares the next step while the device works. "
        "Sample on the device, and detokenize in another process."
    ),
    "view.backward.inference": Advice("Inference has no backward pass. Record a training run to see a backward pass."),
    "view.serving": Advice(
        "Servers annotate their steps during profiling. For custom annotations, set TORCH_TRACE_STEPS to a pattern."
    ),
    "compilation.inference": Advice(
        "Set TORCH_LOGS=recompiles to see why code is compiled again. Mark changing sizes with torch._dynamo.mark_dynamic() "
        "or torch.compile(dynamic=True), and run each shape once before accepting requests.",
        (("PyTorch: recompilation", f"{DOCS}/torch.compiler_troubleshooting.html"),),
        snippet="model = torch.compile(model, dynamic=True)",
    ),
    "recompilation.inference": Advice(
        "Set TORCH_LOGS=recompiles to see which guard failed. Mark changing sizes with torch._dynamo.mark_dynamic(). Or pad "
        "requests to a few sizes, and run each size once before accepting requests.",
        (("PyTorch: recompilation", f"{DOCS}/torch.compiler_troubleshooting.html"),),
        snippet="torch._dynamo.mark_dynamic(batch, 0)  # the dimension that changes",
    ),
    "step_outliers.inference": Advice(
        "Move occasional work out of the step: log and export less often. Run other work, such as tokenization, in a "
        "separate process.",
        (_INFERENCE,),
    ),
    "low_utilization.inference": Advice(
        "Find what the device waits for: input, launches from Python, or synchronization. Larger batches give "
        "the device more work per launch.",
        (_INFERENCE,),
    ),
    "memory_unused.inference": Advice("Use larger batches, or a larger KV cache on a server."),
    "memory_limit.inference": Advice(
        "Use torch.inference_mode(), which stores no activations. Load the weights in 16 bit or quantized. Or process fewer "
        "or smaller inputs at once.",
        (_INFERENCE,),
        snippet="with torch.inference_mode():\n    out = model(x)",
    ),
    "matrix_units.inference": Advice("Matmuls in 16 bit use matrix units.", (AMP,)),
    "matrix_units.bf16.inference": Advice(
        "Load the weights in bfloat16 (model.to(torch.bfloat16)), or use torch.autocast.",
        snippet="model = model.to(torch.bfloat16)",
    ),
    "matrix_units.fp16.inference": Advice(
        "Load the weights in float16 (model.half()), or use torch.autocast.",
        snippet="model = model.half()",
    ),
}
"""Advice that differs from training advice.

Inference has no gradients and no optimizer, and runs requests instead of batches.
"""
