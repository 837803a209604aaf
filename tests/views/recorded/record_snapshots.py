"""Record snapshots with recorded categories: PyTorch's memory profiler on the CPU, through its own converter.

What tests/views/test_snapshot_categories.py compares with what is derived. Two files: a convolutional network with Adam
and a small transformer with AdamW, everything recorded from the making of the model on.

usage: python record_snapshots.py OUT_DIR        (PyTorch 2.13.0, CPU)
"""

import gzip
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from record_cnn import Net
from torch import Tensor, nn
from torch.cuda._memory_viz import _profile_to_snapshot
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

WORDS, WIDTH, LENGTH = 120, 32, 24


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        return self.out(self.body(self.tokens(words)))


def train_cnn() -> None:
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(3):
        pictures, labels = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
        optimizer.zero_grad()
        functional.cross_entropy(net(pictures), labels).backward()
        optimizer.step()


def train_transformer() -> None:
    net = Transformer()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(3):
        words = torch.randint(0, WORDS, (8, LENGTH + 1))
        out = net(words[:, :-1])
        functional.cross_entropy(out.reshape(-1, WORDS), words[:, 1:].reshape(-1)).backward()
        optimizer.step()
        optimizer.zero_grad()


def record(path: Path, train: Callable[[], None]) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_stack=True
    ) as profiler:
        train()
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", filename="", mtime=0) as packed:
        packed.write(pickle.dumps(_profile_to_snapshot(profiler), protocol=4))


def main(out_dir: Path) -> None:
    record(out_dir / "cnn.snapshot.pickle.gz", train_cnn)
    record(out_dir / "transformer.snapshot.pickle.gz", train_transformer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
