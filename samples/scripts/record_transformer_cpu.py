"""Record `transformer_cpu`: a small language model trained on the CPU with AdamW, three steps.

The verbose experimental option makes the profiler write a `Call stack` on every operator; with_modules is on
as well, although eager code gives no `Module Hierarchy` with it.

usage: python record_transformer_cpu.py OUT_DIR        (OUT_DIR/transformer_cpu is created)
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch._C._profiler import _ExperimentalConfig
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

VOCABULARY, WIDTH, HEADS, CONTEXT = 1000, 64, 4, 64


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
        return x + self.mlp(self.ln2(x))


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main(out_dir: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = LanguageModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    run = out_dir / "transformer_cpu"
    run.mkdir(parents=True, exist_ok=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(run), worker_name="worker0", use_gzip=True),
        record_shapes=True,
        with_stack=True,
        with_modules=True,
        experimental_config=_ExperimentalConfig(verbose=True),
    ) as profiler:
        for _ in range(4):
            with record_function("## input ##"):
                ids = torch.randint(0, VOCABULARY, (8, CONTEXT + 1))
            with record_function("## forward ##"):
                logits = model(ids[:, :-1])
                loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            with record_function("## backward ##"):
                loss.backward()
            with record_function("## optimizer ##"):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            profiler.step()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
