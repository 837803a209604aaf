"""Record `resnet_cpu`: a small ResNet trained on the CPU, two profiler cycles of one worker.

The model is written here because torchvision is not a dependency of the recording. The data set decodes its
pictures slowly on purpose (a few convolution-like numpy passes per picture), so that input loading is a
visible share of each step and the overview has something to blame.

usage: python record_resnet_cpu.py OUT_DIR        (OUT_DIR/resnet_cpu is created)
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler
from torch.utils.data import DataLoader, Dataset


class SlowPictures(Dataset[tuple[Tensor, int]]):
    """Random pictures that cost time to make, as decoding and augmenting real ones would."""

    def __len__(self) -> int:
        return 1024

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture = np.random.default_rng(index).standard_normal((3, 96, 96), dtype=np.float32)
        for _ in range(4):
            picture = (picture + np.roll(picture, 1, axis=1) + np.roll(picture, 1, axis=2)) / 3
        return torch.from_numpy(picture[:, 16:80, 16:80].copy()), index % 10


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, the unit ResNet-18 repeats."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + self.downsample(x))


class SmallResNet(nn.Module):
    """ResNet-10 in shape: a stem, four blocks, a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.layers = nn.Sequential(
            BasicBlock(16, 16, 1), BasicBlock(16, 32, 2), BasicBlock(32, 64, 2), BasicBlock(64, 128, 2)
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers(self.pool(self.stem(x)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def main(out_dir: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    model = SmallResNet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(SlowPictures(), batch_size=32, shuffle=True)
    run = out_dir / "resnet_cpu"
    run.mkdir(parents=True, exist_ok=True)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=3, repeat=2),
        on_trace_ready=tensorboard_trace_handler(str(run), worker_name="worker0", use_gzip=True),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
    ) as profiler:
        for number, (pictures, labels) in enumerate(loader):
            if number == 11:
                break
            loss = criterion(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
