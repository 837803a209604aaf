"""Record `compiled_breaks_cpu`: a small transformer trained through torch.compile, with a graph break and a recompilation.

The forward function of a block branches on a number of a tensor, which Dynamo cannot compile: the compiled function ends
there, and another one goes on behind it. The third step has fewer sequences than those before it, so everything is
compiled again, now for any number of them. Two files of one program, which compiles into an empty folder each time:

- `cold`: five steps from the first call on, without stacks: both compilations and the calls between and after them. The
  operators that the compiler itself calls (some 20,000, on tensors without data) are taken out of the file;
- `warm`: one step after that, with Python stacks and calls of modules.

Inductor needs a C++ compiler.

usage: python record_compiled_breaks_cpu.py OUT_DIR        (OUT_DIR/compiled_breaks_cpu is created)
"""

import gzip
import json
import os
import sys
import tempfile
from pathlib import Path

import torch
import torch._inductor.config
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

VOCABULARY, WIDTH, HEADS, CONTEXT = 100, 32, 2, 16
SEQUENCES = (8, 8, 6, 6, 8)
"""In the batch of each step of `cold`."""


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(out.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.ln2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.ln1(x))
        if x.detach().abs().max() > 1e6:
            raise ValueError("the attention diverged")
        return x + self.mlp(self.ln2(x))


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(torch.compile(Block()) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def without_tracing(path: Path) -> None:
    """Takes the operators out of a file that the compiler calls; its own ranges stay."""
    trace = json.loads(gzip.decompress(path.read_bytes()))
    ranges = [event for event in trace["traceEvents"] if event.get("cat") in ("cpu_op", "user_annotation")]
    compiling = [
        (event["ts"], event["ts"] + event["dur"])
        for event in ranges
        if event["name"] in ("dynamo", "entire_backward_compile")
    ]
    inside = [event for event in ranges if any(start < event["ts"] < end for start, end in compiling)]
    own = ("(dynamo_timed)", "_compile", "compile_id=", "Optimizer.")
    left = [event for event in inside if not any(word in event["name"] for word in own)]
    gone = {id(event) for event in left}
    moments = {(event["tid"], event["ts"]) for event in left}
    arrows = {
        event["id"]
        for event in trace["traceEvents"]
        if event.get("ph") in ("s", "f") and (event["tid"], event["ts"]) in moments
    }
    trace["traceEvents"] = [
        event
        for event in trace["traceEvents"]
        if id(event) not in gone and not (event.get("ph") in ("s", "f") and event["id"] in arrows)
    ]
    path.write_bytes(gzip.compress(json.dumps(trace, separators=(",", ":")).encode(), mtime=0))
    print(f"{path.name}: {len(left)} operators of the compiler and {len(arrows)} arrows between them are left out")


def main(out_dir: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    torch._inductor.config.cpp.enable_kernel_profile = True  # a range around each call of a kernel
    model = LanguageModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    run = out_dir / "compiled_breaks_cpu"
    run.mkdir(parents=True, exist_ok=True)

    def train(worker: str, batches: tuple[int, ...], stacks: bool) -> None:
        with profile(
            activities=[ProfilerActivity.CPU],
            schedule=schedule(wait=0, warmup=0, active=len(batches), repeat=1),
            on_trace_ready=tensorboard_trace_handler(str(run), worker_name=worker, use_gzip=True),
            with_stack=stacks,
            with_modules=stacks,
        ) as profiler:
            for sequences in batches:
                ids = torch.randint(0, VOCABULARY, (sequences, CONTEXT + 1))
                logits = model(ids[:, :-1])
                loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                profiler.step()

    train("cold", SEQUENCES, stacks=False)
    train("warm", (8,), stacks=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as caches:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = caches
        main(Path(sys.argv[1]))
    for file in (Path(sys.argv[1]) / "compiled_breaks_cpu").glob("cold.*"):
        without_tracing(file)
