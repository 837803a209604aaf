"""Invent traces of servers of language models whose steps are known, for machines without a GPU.

A plan of iterations (prefill, decode, mixed, idle, denoising) is laid out on a host thread and a stream, and written as
Kineto would: annotations in the dialect of a framework, launches, a graph for each decode step, kernels, the copy of the new
tokens that the host waits for, or with ``--overlap`` does not until the next iteration has been launched. The truth is
counted from the plan: bounds of each step, its first launch, mode, batch, tokens, context, and the idle time before its
first work.

Nothing here was recorded: names are made up after what the frameworks' sources say. Needs nothing but Python.

usage: python samples/synthetic_serving.py OUT.pt.trace.json.gz [--dialect sglang] [--seed 0] [--steps 24] [--truth FILE]
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from events import H100, Json, Timeline, write_pieces, write_truth

BASE_US = 4_909_914_216_000
"""Where times of the file begin, microseconds."""
LAYER = (
    "rms_norm_kernel",
    "qkv_gemm_bf16_kernel",
    "flash_attention_fwd_kernel",
    "out_gemm_bf16_kernel",
    "silu_mul_kernel",
)
DENOISER = ("group_norm_kernel", "conv2d_implicit_gemm_kernel", "flash_attention_fwd_kernel", "silu_mul_kernel")


@dataclass(frozen=True)
class Plan:
    """One iteration: its mode and what it works on."""

    mode: str
    filling: int = 0
    prompt_tokens: int = 0
    decoding: int = 0
    prompt_context: int = 0
    decode_context: int = 0
    speculative: int = 1
    """Tokens of each request that decodes."""

    @property
    def decode_tokens(self) -> int:
        """Returns the tokens that go through the network for requests that decode."""
        return self.decoding * self.speculative


def _sglang(plan: Plan, number: int) -> list[str]:
    """What SGLang says."""
    batch = plan.filling + plan.decoding
    if plan.mode == "prefill":
        return [f"step[EXTEND bs={batch} toks={plan.prompt_tokens}]"]
    word = {"decode": "DECODE", "mixed": "MIXED", "idle": "IDLE"}[plan.mode]
    return [f"step[{'TARGET_VERIFY' if plan.speculative > 1 else word} bs={batch}]"]


def _roofline(plan: Plan, number: int) -> list[str]:
    """What SGLang says with roofline_annotations."""
    (plain,) = _sglang(plan, number)
    of_prompts = f"c_sq={plan.prompt_tokens} c_sk={plan.prompt_context} c_sqsq=1 c_sqsk=1"
    of_decoding = f"g_sq={plan.decode_tokens} g_sk={plan.decode_context} g_sqsq=1 g_sqsk=1"
    more = {
        "prefill": f" c_sqsq=1 c_sqsk=1 c_sk={plan.prompt_context}",
        "decode": f" g_sqsq=1 g_sqsk=1 g_sk={plan.decode_context}" if plan.speculative == 1 else "",
        "mixed": f" c={plan.filling} g={plan.decoding} {of_prompts} {of_decoding}",
        "idle": "",
    }
    return [f"{plain[:-1]}{more[plan.mode]}]"]


def _vllm(plan: Plan, number: int) -> list[str]:
    """What vLLM says."""
    return [
        f"execute_context_{plan.filling}({plan.prompt_tokens})_generation_{plan.decoding}({plan.decode_tokens})",
    ]


def _nested(plan: Plan, number: int) -> list[str]:
    """The detailed form around SGLang's."""
    outer = (
        f"execute_{plan.prompt_tokens + plan.decode_tokens}"
        f"_context_{plan.filling}(sq{plan.prompt_tokens}sk{plan.prompt_context}sqsq1sqsk1)"
        f"_generation_{plan.decoding}(sq{plan.decode_tokens}sk{plan.decode_context}sqsq1sqsk1)"
    )
    return [outer, *_sglang(plan, number)]


def _tensorrt(plan: Plan, number: int) -> list[str]:
    """What TensorRT-LLM says."""
    return [f"[Executor] _forward_step {number}: {plan.filling} ctx reqs, {plan.decoding} gen reqs"]


def _diffusion(plan: Plan, number: int) -> list[str]:
    """What pipelines of pictures say."""
    return [f"denoising_step_{number}"]


def _nothing(plan: Plan, number: int) -> list[str]:
    """A server that marks nothing."""
    return []


DIALECTS: dict[str, Callable[[Plan, int], list[str]]] = {
    "sglang": _sglang,
    "roofline": _roofline,
    "vllm": _vllm,
    "nested": _nested,
    "tensorrt": _tensorrt,
    "diffusion": _diffusion,
    "none": _nothing,
}


@dataclass(frozen=True)
class Config:
    """A Config says what to invent."""

    seed: int = 0
    dialect: str = "sglang"
    steps: int = 24
    overlap: bool = False
    speculative: bool = False
    eager: str = ""
    """A frame in which each iteration runs, without graphs: decode steps launch each kernel, with attention of their own."""
    gap_ns: int = 0
    """Further host time between steps."""
    slow_step: int = -1
    """Position of a decode step before which the host is held up."""


def plans_of(config: Config) -> list[Plan]:
    """Returns the iterations: runs of decode steps between prefills, some mixed and some idle."""
    rng = random.Random(config.seed)
    if config.dialect == "diffusion" or "diffusers" in config.eager:
        return [Plan("denoising")] * config.steps
    found: list[Plan] = []
    context, decoding = 0, 0
    several = rng.choice((2, 4)) if config.speculative else 1
    while len(found) < config.steps:
        kind = rng.random()
        if decoding == 0 and kind < 0.2:
            found.append(Plan("idle"))
            continue
        if decoding == 0 or kind < 0.15:
            filling = rng.randint(1, 4)
            tokens = filling * rng.randint(16, 512)
            mixed = bool(decoding) and rng.random() < 0.5
            found.append(
                Plan(
                    "mixed" if mixed else "prefill",
                    filling,
                    tokens,
                    decoding if mixed else 0,
                    tokens + rng.randint(0, 99),
                    context if mixed else 0,
                )
            )
            decoding, context = decoding + filling, context + tokens
            continue
        for _ in range(rng.randint(1, 12)):
            context += decoding * several
            found.append(Plan("decode", 0, 0, decoding, 0, context, several))
        decoding = 0 if rng.random() < 0.3 else rng.randint(1, 64)
        context = decoding * rng.randint(100, 2000)
    return found[: config.steps]


def graph_of(plan: Plan) -> int:
    """Returns the id of the graph that a decode step launches: one was captured for each power of two of tokens."""
    return 3 + 2 * (plan.decode_tokens - 1).bit_length()


class _Writer(Timeline):
    """Events in order, and the times of host and device."""

    def __init__(self) -> None:
        super().__init__()
        self.host = 10_000
        self.device = 0
        self.correlation = 100
        self.external = 1

    def _event(self, name: str, category: str, start: int, end: int, pid: int, tid: int, args: Json) -> None:
        self.span(category, name, _us(start), _us(end - start, 0), pid, tid, args)

    def on_host(self, name: str, category: str, start: int, end: int, **args: Any) -> None:
        """Adds what the host did."""
        self._event(name, category, start, end, 700, 700, args)

    def launch(self, kernels: list[tuple[str, int]], graph: int = 0) -> tuple[int, int]:
        """Adds a call and the kernels that it launches, or a graph of them; returns when they begin and end."""
        call = "cudaGraphLaunch" if graph else "cudaLaunchKernel"
        self.correlation += 1
        begin, length = self.host, 4_000 if call == "cudaLaunchKernel" else 11_000
        self.on_host(call, "cuda_runtime", begin, begin + length, correlation=self.correlation)
        self.host = begin + length + 1_000
        first = -1
        for node, (name, duration) in enumerate(kernels, 1):
            start = max(self.device, begin + length + 2_000)
            first = start if first < 0 else first
            self.device = start + duration
            args: Json = {
                "device": 0,
                "stream": 7,
                "correlation": self.correlation,
                "grid": [8, 1, 1],
                "block": [256, 1, 1],
            }
            if graph:
                args |= {"graph id": graph, "graph node id": (graph << 32) + node}
            self._event(name, "kernel", start, self.device, 0, 7, args)
            self.device += 700 if graph else 0
        self.device -= 700 if graph else 0
        return first, self.device

    def copy(self) -> int:
        """Adds the copy of the new tokens to the host; returns when it ends."""
        self.correlation += 1
        begin = self.host
        self.on_host("cudaMemcpyAsync", "cuda_runtime", begin, begin + 5_000, correlation=self.correlation)
        start = max(self.device, begin + 7_000)
        self.device = start + 1_500
        args = {"device": 0, "stream": 7, "correlation": self.correlation, "bytes": 256}
        self._event("Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", start, self.device, 0, 7, args)
        self.host = begin + 6_000
        return self.device

    def wait(self, until: int) -> None:
        """Adds a wait of the host for the device."""
        begin = self.host
        self.host = max(begin, until) + 2_000
        self.on_host("cudaEventSynchronize", "cuda_runtime", begin, self.host, correlation=0)
        self.host += 500


def _us(ns: int, base: int = BASE_US) -> float:
    """Microseconds with three decimals, as Kineto writes them; a double holds them exactly enough."""
    return round(base + ns / 1000, 3)


def generate(config: Config) -> tuple[Json, Json]:
    """Returns the trace and its truth."""
    rng = random.Random(f"times {config.seed}")
    say, out = DIALECTS[config.dialect], _Writer()
    truth: list[Json] = []
    graphs: list[int] = []
    pending, last_decode_end = -1, -1
    layers = rng.randint(2, 4) + bool(config.eager)
    for number, plan in enumerate(plans_of(config)):
        out.host += rng.randint(1_000, 9_000) + config.gap_ns + (250_000 if number == config.slow_step else 0)
        begin, names = out.host, say(plan, number)
        out.host += 500 * len(names) + 1_000
        first, last, launched = -1, -1, None
        if plan.mode != "idle":
            scale = plan.prompt_tokens * 12 + plan.decode_tokens * 30 + 3_000
            each = DENOISER if plan.mode == "denoising" else LAYER
            kernels = [(name, scale + rng.randint(0, 400)) for _ in range(layers) for name in each]
            if config.eager and plan.mode == "decode":
                kernels = [(name.replace("flash_attention_fwd", "paged_attention"), time) for name, time in kernels]
            op = launched = out.host
            first, _ = out.launch([("prepare_inputs_kernel", 1_200)])
            out.on_host("aten::copy_", "cpu_op", op - 300, out.host - 200, **{"External id": out.external})
            out.external += 1
            if plan.mode == "decode" and not config.eager:
                graphs.append(out.host)
                out.launch(kernels, graph_of(plan))
            else:
                for kernel in kernels:
                    out.launch([kernel])
            out.launch([("sample_tokens_kernel", 2_500)])
            last = out.copy()
            if config.overlap:
                if pending >= 0:
                    out.wait(pending)
                pending = last
            else:
                out.wait(last)
        end = out.host = out.host + 1_000
        if config.eager:
            out.on_host(config.eager, "python_function", begin, end, **{"Python id": number + 1})
        for depth, name in enumerate(names):
            out.on_host(name, "user_annotation", begin + 400 * depth, end - 200 * depth, **{"External id": 0})
        out.host += 500
        decodes = plan.mode == "decode"
        truth.append(
            {
                "mode": plan.mode,
                "batch": plan.filling + plan.decoding,
                "prompt_tokens": plan.prompt_tokens,
                "decode_tokens": plan.decode_tokens,
                "context": plan.prompt_context + plan.decode_context,
                "generated": plan.decoding if plan.speculative == 1 else None,
                "host_start_ns": begin,
                "host_end_ns": end,
                "first_launch_ns": launched,
                "first_work_ns": first,
                "last_work_ns": last,
                "gap_ns": max(0, first - last_decode_end) if decodes and last_decode_end >= 0 else None,
            }
        )
        last_decode_end = last if decodes else -1
    before = -1
    for step in truth:
        step["start_ns"] = max(before, step["host_start_ns"])
        before = step["end_ns"] = max(step["host_end_ns"], step["last_work_ns"], step["start_ns"])
    names = Timeline().metadata("process_name", 700, 0, BASE_US, {"name": "python"})
    names.metadata("thread_name", 700, 700, BASE_US, {"name": "scheduler"})
    document = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": H100["name"], "numSms": 132}],
        "traceEvents": [*names.events, *out.events],
    }
    origin = min(round((event["ts"] - BASE_US) * 1000) for event in out.events)
    return document, {"origin_ns": origin, "steps": truth, "graph_launches_ns": graphs}


def write(config: Config, path: Path, truth: Path | None = None) -> None:
    """Writes a trace (compressed where its name says so) and its truth."""
    document, known = generate(config)
    write_pieces(path, [json.dumps(document, separators=(",", ":"))])
    write_truth(truth, known, indent=1)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description="Invent a server's trace.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--dialect", choices=DIALECTS, default="sglang")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--speculative", action="store_true")
    parser.add_argument("--eager", default="", metavar="FRAME")
    parser.add_argument("--gap-ns", type=int, default=0)
    parser.add_argument("--slow-step", type=int, default=-1)
    parser.add_argument("--truth", type=Path)
    asked = parser.parse_args()
    given = {key: value for key, value in vars(asked).items() if key not in ("out", "truth")}
    config = Config(**given)
    write(config, asked.out, asked.truth)


if __name__ == "__main__":
    main()
