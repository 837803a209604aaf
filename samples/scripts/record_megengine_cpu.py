"""Record megengine_cpu/: two training steps of a small convolutional network in MegEngine on a CPU, with scopes.

usage: python record_megengine_cpu.py OUT_DIR   (needs MegEngine 1.13.0, which has wheels for Python 3.8)
"""

import gzip
import sys
from pathlib import Path

import megengine as mge
import megengine.functional as F
import megengine.module as M
import numpy as np
from megengine.autodiff import GradManager
from megengine.optimizer import SGD
from megengine.utils.profiler import Profiler, scope


class Net(M.Module):
    def __init__(self):
        super().__init__()
        self.c = M.Conv2d(3, 8, 3, padding=1)
        self.bn = M.BatchNorm2d(8)
        self.fc = M.Linear(8 * 64, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn(self.c(x))), 2)
        return self.fc(F.flatten(x, 1))


def main():
    folder = Path(sys.argv[1]) / "megengine_cpu"
    folder.mkdir(parents=True, exist_ok=True)
    net = Net()
    manager = GradManager().attach(net.parameters())
    optimizer = SGD(net.parameters(), lr=0.01)
    x = mge.tensor(np.random.rand(4, 3, 16, 16).astype("float32"))
    y = mge.tensor(np.random.randint(0, 10, 4).astype("int32"))

    def step():
        with manager:
            with scope("fwd_scope"):
                loss = F.loss.cross_entropy(net(x), y)
            manager.backward(loss)
        optimizer.step().clear_grad()
        return loss.numpy()

    step()
    profiler = Profiler(str(folder), formats=["chrome_timeline.json"], with_scopes=True)
    profiler.start()
    step()
    profiler.step()
    step()
    profiler.stop()
    profiler.dump()
    for path in folder.glob("*.chrome_timeline.json"):
        Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        path.unlink()


if __name__ == "__main__":
    main()
