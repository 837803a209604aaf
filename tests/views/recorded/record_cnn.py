"""Record `cnn`: two steps of a small convolutional network with Adam, its trace and its memory by category from one profiler.

What tests/views/test_memory_categories.py compares, beside samples/memory_timeline_cpu.

usage: python record_cnn.py OUT_DIR        (PyTorch 2.13.0, CPU)
"""

import sys
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.hidden, self.out = nn.Linear(16 * 8 * 8, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.norm1(self.conv1(x))), 2)
        x = functional.max_pool2d(functional.relu(self.norm2(self.conv2(x))), 2)
        return self.out(functional.dropout(functional.relu(self.hidden(x.flatten(1))), 0.1))


def train(net: Net, optimizer: torch.optim.Optimizer) -> None:
    for _ in range(2):
        pictures, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
        functional.cross_entropy(net(pictures), labels).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def main(out_dir: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    train(net, optimizer)  # parameters and optimizer state are there before the recording
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    ) as profiler:
        train(net, optimizer)
    profiler.export_chrome_trace(str(out_dir / "cnn.pt.trace.json.gz"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        profiler.export_memory_timeline(str(out_dir / "cnn.memory_timeline.raw.json.gz"), device="cpu")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
