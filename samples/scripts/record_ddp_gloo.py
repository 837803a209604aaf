"""Record `ddp_gloo`: DistributedDataParallel over gloo, two processes on one machine, three steps each.

Gloo writes no collective metadata (sizes, group, sequence number) into the trace: this is the sample for a
distributed view that has names and times only. distributedInfo is present.

usage: python record_ddp_gloo.py OUT_DIR        (OUT_DIR/ddp_gloo is created)
"""

import os
import sys
from pathlib import Path

import torch
from torch import distributed, multiprocessing, nn
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

WORLD = 2


def work(rank: int, out_dir: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29613")
    distributed.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
    model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    run = Path(out_dir) / "ddp_gloo"
    run.mkdir(parents=True, exist_ok=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=2, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(run), worker_name=f"rank{rank}", use_gzip=True),
        record_shapes=True,
    ) as profiler:
        for _ in range(5):
            inputs, labels = torch.randn(64, 256), torch.randint(0, 10, (64,))
            loss = criterion(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean_loss = loss.detach().clone()
            distributed.all_reduce(mean_loss)
            profiler.step()
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(work, (sys.argv[1],), nprocs=WORLD)
