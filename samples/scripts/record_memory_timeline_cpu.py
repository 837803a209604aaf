"""Record `memory_timeline_cpu`: the memory of a training by category, and the trace of the same profiler beside it.

A small language model with AdamW, gradients of two batches a step; everything is recorded from the making of the model on, so
that parameters and optimizer state are allocated before the profiler's eyes. export_memory_timeline wants shapes, memory
and stacks. It is called for raw rows and for levels; the three files speak of the same bytes.

usage: python record_memory_timeline_cpu.py OUT_DIR        (OUT_DIR/memory_timeline_cpu is created)
"""

import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

VOCABULARY, WIDTH, HEADS, CONTEXT, SENTENCES, BATCHES, STEPS = 200, 32, 2, 32, 8, 2, 2


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4).unbind(0)
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.mlp(x + out.transpose(1, 2).reshape(batch, length, width))


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(1))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def train() -> None:
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(STEPS):
        for _ in range(BATCHES):
            ids = torch.randint(0, VOCABULARY, (SENTENCES, CONTEXT + 1))
            logits = model(ids[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()) / BATCHES
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def main(out_dir: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    run = out_dir / "memory_timeline_cpu"
    run.mkdir(parents=True, exist_ok=True)
    train()  # what PyTorch does once takes a second and no memory that anybody asks about
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    ) as profiler:
        train()
    stem = f"{run}/worker0"
    profiler.export_chrome_trace(f"{stem}.pt.trace.json.gz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # it is deprecated, and there is nothing else with categories
        profiler.export_memory_timeline(f"{stem}.memory_timeline.raw.json.gz", device="cpu")
        profiler.export_memory_timeline(f"{stem}.memory_timeline.json.gz", device="cpu")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
