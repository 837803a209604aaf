"""Record `export_stacks_cpu`: the stacks of a small training as `export_stacks` writes them.

A convolution, a batch norm and two linear layers with Adam, one step. Without verbose=True the file would be empty.

usage: python record_export_stacks_cpu.py OUT_DIR        (OUT_DIR/export_stacks_cpu is created)
"""

import gzip
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

METRIC = "self_cpu_time_total"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.hidden, self.out = nn.Linear(512, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.norm(self.conv(x))), 2)
        return self.out(functional.relu(self.hidden(x.flatten(1))))


def step(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loss = functional.cross_entropy(net(torch.randn(4, 3, 16, 16)), torch.randint(0, 10, (4,)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main() -> None:
    folder = Path(sys.argv[1]) / "export_stacks_cpu"
    folder.mkdir(parents=True, exist_ok=True)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    step(net, optimizer)
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=verbose) as profiler:
        step(net, optimizer)
    text = folder / f"worker0.{METRIC}.txt"
    profiler.export_stacks(str(text), METRIC)
    text.with_suffix(".txt.gz").write_bytes(gzip.compress(text.read_bytes(), mtime=0))
    text.unlink()


if __name__ == "__main__":
    main()
