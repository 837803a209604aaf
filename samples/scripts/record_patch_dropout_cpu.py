"""Record `patch_dropout_cpu`: a small classifier of patches, trained with deterministic algorithms, two steps.

`PatchDropout` keeps some patches of each picture by `torch.gather`. The backward pass of a gather adds into what may be
the same place twice, and deterministic algorithms make it do so in a fixed order: slower, and on a GPU with a
synchronisation. The recording shows which layer and line such a backward operator comes from. `Scale` is a custom
autograd function, another kind of operator that has to be tied to its layer.

usage: python record_patch_dropout_cpu.py OUT_DIR        (OUT_DIR/patch_dropout_cpu is created)
"""

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler


class PatchDropout(nn.Module):
    """Keeps half of the patches of each picture, chosen at random."""

    def forward(self, patches: Tensor) -> Tensor:
        batch, count, width = patches.shape
        chosen = torch.rand(batch, count).argsort(1)[:, : count // 2]
        index = chosen.unsqueeze(-1).expand(-1, -1, width)
        return torch.gather(patches, 1, index)


class Twice(torch.autograd.Function):
    """Doubles what goes through, forwards and backwards."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 2


class Scale(nn.Module):
    """Calls the custom function."""

    def forward(self, values: Tensor) -> Tensor:
        return Twice.apply(values)


class PatchClassifier(nn.Module):
    """Patches are embedded, dropped, mixed and averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(48, 96)
        self.drop = PatchDropout()
        self.scale = Scale()
        self.mix = nn.Sequential(nn.Linear(96, 96), nn.GELU())
        self.head = nn.Linear(96, 10)

    def forward(self, patches: Tensor) -> Tensor:
        kept = self.scale(self.drop(self.embed(patches)))
        return self.head(self.mix(kept).mean(1))


def main(out_dir: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    model = PatchClassifier()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    patches, labels = torch.randn(32, 196, 48), torch.randint(0, 10, (32,))
    run = out_dir / "patch_dropout_cpu"
    run.mkdir(parents=True, exist_ok=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=2, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(run), worker_name="worker0", use_gzip=True),
        with_stack=True,
    ) as profiler:
        for _ in range(3):
            loss = criterion(model(patches), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
