"""Record `compiled_cpu`: a small MLP trained through torch.compile, three steps.

Inductor needs a C++ compiler; where none works the script says so and records aot_eager instead.

usage: python record_compiled_cpu.py OUT_DIR        (OUT_DIR/compiled_cpu is created)
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler


def main(out_dir: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    net = nn.Sequential(
        nn.Linear(128, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10)
    )
    inputs, labels = torch.randn(64, 128), torch.randint(0, 10, (64,))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    model = torch.compile(net)
    try:
        criterion(model(inputs), labels).backward()
        print("backend: inductor")
    except Exception as error:
        print(f"backend: aot_eager, because inductor failed: {error!r}"[:400])
        torch._dynamo.reset()
        model = torch.compile(net, backend="aot_eager")
        criterion(model(inputs), labels).backward()
    run = out_dir / "compiled_cpu"
    run.mkdir(parents=True, exist_ok=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(run), worker_name="worker0", use_gzip=True),
        record_shapes=True,
    ) as profiler:
        for _ in range(4):
            loss = criterion(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
