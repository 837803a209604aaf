"""Record `lightning_cpu`: a small classifier trained by Lightning's Trainer with its PyTorchProfiler, three steps.

usage: python record_lightning_cpu.py OUT_DIR        (OUT_DIR/lightning_cpu is created)
"""

import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.profilers import PyTorchProfiler
from torch import nn
from torch.profiler import ProfilerActivity, schedule, tensorboard_trace_handler
from torch.utils.data import DataLoader, TensorDataset

CHANNELS, CLASSES = 16, 10


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images + self.conv(torch.relu(self.norm(images)))


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(CHANNELS, CLASSES)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(images)).mean(dim=(2, 3)))

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], _index: int) -> torch.Tensor:
        images, labels = batch
        return self.loss(self(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


def main(out_dir: Path) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(2)
    data = TensorDataset(torch.randn(256, 3, 32, 32), torch.randint(0, CLASSES, (256,)))
    run = out_dir / "lightning_cpu"
    run.mkdir(parents=True, exist_ok=True)
    profiler = PyTorchProfiler(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
        on_trace_ready=tensorboard_trace_handler(str(run), worker_name="worker0", use_gzip=True),
        record_shapes=True,
        emit_nvtx=False,
    )
    trainer = lightning.Trainer(
        max_steps=6,
        accelerator="cpu",
        profiler=profiler,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), DataLoader(data, batch_size=32))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
