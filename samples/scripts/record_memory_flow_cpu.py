"""Record `memory_flow_cpu`: where the tensors of three forward passes lay in memory, as MegEngine's profiler draws it.

Python 3.8 and MegEngine 1.13 on a CPU. Training steps cannot be had there: the profiler crashes when it writes this
file after a backward pass.

usage: python record_memory_flow_cpu.py OUT_DIR        (OUT_DIR/memory_flow_cpu is created)
"""

import sys
from pathlib import Path

import megengine
import megengine.functional as F
import megengine.module as M
import numpy as np
from megengine.utils.profiler import Profiler, scope

PASSES = 3


def main() -> None:
    run = Path(sys.argv[1]) / "memory_flow_cpu"
    run.mkdir(parents=True, exist_ok=True)
    first, second, last = M.Conv2d(3, 8, 3, padding=1), M.Conv2d(8, 16, 3, padding=1), M.Linear(16 * 16 * 16, 10)
    x = megengine.tensor(np.random.rand(4, 3, 32, 32).astype("float32"))

    def forward() -> megengine.Tensor:
        with scope("block1"):
            hidden = F.relu(first(x))
        with scope("block2"):
            hidden = F.max_pool2d(F.relu(second(hidden)), 2)
        return last(F.flatten(hidden, 1))

    forward().numpy()
    profiler = Profiler(str(run), formats=["memory_flow.svg"])
    profiler.start()
    for _ in range(PASSES):
        out = forward()
        out.numpy()
    profiler.stop()
    profiler.dump()
    print(*run.iterdir())


if __name__ == "__main__":
    main()
