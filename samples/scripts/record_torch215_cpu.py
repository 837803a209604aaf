"""Record `torch215_cpu`: one step of a small network on the CPU with PyTorch 2.15, Python stacks and shapes.

usage: python record_torch215_cpu.py OUT_DIR        (OUT_DIR/torch215_cpu is created)
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(16, 32)
        self.fc2 = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(torch.relu(self.fc1(x)))


def main(out: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
        with record_function("my_forward"):
            output = model(x)
        loss = functional.cross_entropy(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    step()
    with profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True) as recording:
        step()
    folder = out / "torch215_cpu"
    folder.mkdir(parents=True, exist_ok=True)
    recording.export_chrome_trace(str(folder / "with_stack.pt.trace.json.gz"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
