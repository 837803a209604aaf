"""Record `no_steps_cpu`: an inference loop, no schedule, no ProfilerStep, no options.

The plainest file a person can produce: no shapes, no stacks, no memory events and no step to divide by.

usage: python record_no_steps_cpu.py OUT_DIR        (OUT_DIR/no_steps_cpu is created)
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile


def main(out_dir: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10), nn.Softmax(-1),
    ).eval()  # fmt: skip
    pictures = torch.randn(8, 3, 64, 64)
    run = out_dir / "no_steps_cpu"
    run.mkdir(parents=True, exist_ok=True)
    with torch.inference_mode():
        model(pictures)
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            for _ in range(20):
                model(pictures)
    profiler.export_chrome_trace(str(run / "inference.pt.trace.json"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
