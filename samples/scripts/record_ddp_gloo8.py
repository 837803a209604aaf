"""Record `ddp_gloo8`: DistributedDataParallel over gloo, eight processes on one machine, three steps each.

Two things are planted: rank 5 multiplies matrices before each forward pass that nobody else has, so that all others wait for
it; and the ranks 0 to 3 sum eight numbers in a group of their own after each step. Like `ddp_gloo` it has no collective
metadata, and here nothing but names and shapes tells the two groups apart.

usage: python record_ddp_gloo8.py OUT_DIR        (OUT_DIR/ddp_gloo8 is created)
"""

import os
import sys
from pathlib import Path

import torch
from torch import distributed, multiprocessing, nn
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

WORLD = 8
SLOW, MORE = 5, 24
FEW = [0, 1, 2, 3]


def work(rank: int, out_dir: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29617")
    distributed.init_process_group("gloo", rank=rank, world_size=WORLD)
    few = distributed.new_group(FEW, group_desc="first_half")
    torch.manual_seed(rank)
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    more = torch.randn(512, 512)
    run = Path(out_dir) / "ddp_gloo8"
    run.mkdir(parents=True, exist_ok=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=2, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(run), worker_name=f"rank{rank}", use_gzip=True),
        record_shapes=True,
    ) as profiler:
        for _ in range(5):
            inputs, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
            if rank == SLOW:
                for _ in range(MORE):
                    torch.mm(more, more)
            loss = criterion(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rank in FEW:
                distributed.all_reduce(torch.zeros(8), group=few)
            distributed.all_reduce(loss.detach().clone())
            profiler.step()
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(work, (sys.argv[1],), nprocs=WORLD)
