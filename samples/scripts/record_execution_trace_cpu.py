"""Record `execution_trace_cpu`: the execution trace of one step of a small training, and the trace beside it.

A convolution, a batch norm and two linear layers with Adam. The observer writes what the operators took and gave; the trace
states the same numbers of calls (`Record function id`).

usage: python record_execution_trace_cpu.py OUT_DIR        (OUT_DIR/execution_trace_cpu is created)
"""

import gzip
import sys
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.hidden, self.out = nn.Linear(512, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.norm(self.conv(x))), 2)
        return self.out(functional.relu(self.hidden(x.flatten(1))))


def main() -> None:
    folder = Path(sys.argv[1]) / "execution_trace_cpu"
    folder.mkdir(parents=True, exist_ok=True)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    text = folder / "worker0.execution_trace.json"
    observer = ExecutionTraceObserver().register_callback(str(text))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer) as profiler:
        loss = functional.cross_entropy(net(torch.randn(4, 3, 16, 16)), torch.randint(0, 10, (4,)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    observer.unregister_callback()
    profiler.export_chrome_trace(str(folder / "worker0.pt.trace.json.gz"))
    text.with_suffix(".json.gz").write_bytes(gzip.compress(text.read_bytes(), mtime=0))
    text.unlink()


if __name__ == "__main__":
    main()
