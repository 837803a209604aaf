"""Step annotations of model servers.

``source`` is the source code that writes an annotation. ``checked`` is the real trace in which the annotation was
found; if it is empty, no real trace was available. Text Generation Inference and xDiT write no annotations. Their
users can set a pattern in ``TORCH_TRACE_STEPS``.
"""

from __future__ import annotations

from tb_plugin.model.trace.recorder import StepPattern

_SGLANG = "https://github.com/sgl-project/sglang, python/sglang/srt/utils/profile_utils.py"
_VLLM = "https://github.com/vllm-project/vllm, vllm/v1/worker/gpu_worker.py"
_SGLANG_FILE = "AMD-AGI/TraceLens, tests, sglang_Qwen3-8B_decode.json.gz"

# Newer versions of vLLM append "_" and the sum of squared token counts per request.
_TOKENS = r"(?P<{0}_tokens>\d+)(?:_\d+)*"
_OF_PHASE = r"sq(?P<{0}_tokens>\d+)sk(?P<{0}_context>\d+)sqsq\d+sqsk\d+"

SERVING: tuple[StepPattern, ...] = (
    StepPattern(
        "SGLang",
        r"^step\[(?P<mode>[A-Z][A-Z0-9_]*) bs=(?P<batch>\d+)(?: toks=(?P<tokens>\d+))?(?: [^\]]*)?\]$",
        modes=(
            ("EXTEND", "prefill"),
            ("PREFILL", "prefill"),
            ("SPLIT_PREFILL", "prefill"),
            ("DLLM_EXTEND", "prefill"),
            ("DECODE", "decode"),
            ("TARGET_VERIFY", "decode"),
            ("VERIFY", "decode"),
            ("DRAFT_EXTEND", "decode"),
            ("DRAFT_EXTEND_V2", "decode"),
            ("MIXED", "mixed"),
            ("IDLE", "idle"),
        ),
        speculative=("TARGET_VERIFY", "VERIFY", "DRAFT_EXTEND", "DRAFT_EXTEND_V2", "DLLM_EXTEND"),
        source=_SGLANG,
        checked=f"DECODE: {_SGLANG_FILE}",
    ),
    # SGLang adds these fields if roofline_annotations is set.
    StepPattern(
        "SGLang",
        r"^step\[MIXED bs=\d+ c=(?P<prefill_requests>\d+) g=(?P<decode_requests>\d+) c_sq=(?P<prefill_tokens>\d+) "
        r"c_sk=(?P<prefill_context>\d+) [^\]]*g_sq=(?P<decode_tokens>\d+) g_sk=(?P<decode_context>\d+)",
        source=f"{_SGLANG} (build_roofline_suffix)",
    ),
    StepPattern("SGLang", r"^step\[EXTEND [^\]]*c_sk=(?P<prefill_context>\d+)", source=_SGLANG),
    StepPattern("SGLang", r"^step\[DECODE [^\]]*g_sk=(?P<decode_context>\d+)", source=_SGLANG),
    StepPattern(
        "vLLM",
        rf"^execute_context_(?P<prefill_requests>\d+)\({_TOKENS.format('prefill')}\)"
        rf"_generation_(?P<decode_requests>\d+)\({_TOKENS.format('decode')}\)$",
        source=_VLLM,
    ),
    StepPattern(
        "vLLM or SGLang, detailed",
        rf"^execute_\d+_context_(?P<prefill_requests>\d+)\({_OF_PHASE.format('prefill')}\)"
        rf"_generation_(?P<decode_requests>\d+)\({_OF_PHASE.format('decode')}\)$",
        source="https://github.com/vllm-project/vllm/pull/37524 (detailed_trace_annotation)",
        checked=f"decode: {_SGLANG_FILE}",
    ),
    # Cached requests include the rest of long prompts, which the name does not separate from decoding.
    StepPattern(
        "vLLM",
        r"^execute_new_(?P<prefill_requests>\d+)_cached_(?P<decode_requests>\d+)$",
        source="https://github.com/vllm-project/vllm/pull/22496",
    ),
    StepPattern(
        "TensorRT-LLM",
        r"^\[Executor\] _forward_step (?P<step>\d+): (?P<prefill_requests>\d+) ctx reqs, "
        r"(?:(?P<prefill_tokens>\d+) ctx tokens, )?(?P<decode_requests>\d+) gen reqs",
        source="https://github.com/NVIDIA/TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/py_executor.py",
    ),
    StepPattern(
        "ATOM",
        r"^(?:eager_)?(?P<mode>prefill|decode|mixed)\[bs=(?P<batch>\d+) tok=(?P<tokens>\d+)"
        r"(?: p=(?P<prefill_requests>\d+))?(?: d=(?P<decode_requests>\d+))?(?: [^\]]*)?\]$",
        source="https://github.com/ROCm/ATOM",
    ),
    StepPattern(
        "a diffusion pipeline",
        r"(?i)^denois(?:e|ing)[_ ]?step[_ #]?(?P<step>\d+)$",
        mode="denoising",
        source="https://github.com/sgl-project/sglang, python/sglang/multimodal_gen (denoising_step_N)",
    ),
    # Part of an iteration, used if the whole iteration has no annotation.
    StepPattern(
        "vLLM",
        r"^gpu_model_runner: forward$",
        source="https://github.com/vllm-project/vllm, vllm/v1/worker/gpu_model_runner.py",
    ),
)
"""If several patterns match a name, the first one applies. Later ones only add missing fields."""

MARKS: tuple[tuple[str, str], ...] = (
    ("vLLM", r"^execute_(?:\d+_)?(?:context|new|model)_"),
    ("SGLang", r"^step\["),
    ("TensorRT-LLM", r"^\[Executor\] _forward_step\b"),
)
"""Prefixes of server annotations. If an annotation with such a prefix matches no pattern, a notice reports it."""

ITERATING = (
    r"(?:^|[/\\])(?:vllm|sglang|tensorrt_llm|text_generation_server|lmdeploy|xfuser|diffusers[/\\]pipelines)[/\\]"
    r"[^\s(]*\.py\(\d+\): |^(?:vllm|sgl_kernel|trtllm)::"
)
"""Regex for frames and operators of model servers and diffusion pipelines, by package name. Not checked with a real trace."""
