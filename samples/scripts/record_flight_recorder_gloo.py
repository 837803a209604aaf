"""Records ``flight_recorder_gloo``: what the flight recorder of two ranks keeps (PyTorch 2.15, gloo, CPU)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch._C import _distributed_c10d

RANKS = 2


def work(rank: int, folder: str) -> None:
    """Two collectives, and the dump of the recorder, which is a pickle."""
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    tensor = torch.ones(4, 3)
    dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    (Path(folder) / f"trace_rank_{rank}").write_bytes(_distributed_c10d._dump_fr_trace())
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    """Writes a file a rank into the folder ``flight_recorder_gloo`` of the folder that is named."""
    folder = Path(sys.argv[1]) / "flight_recorder_gloo"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ.update(TORCH_FR_BUFFER_SIZE="100", MASTER_ADDR="127.0.0.1", MASTER_PORT="29771")
    mp.spawn(work, (str(folder),), nprocs=RANKS)


if __name__ == "__main__":
    main()
