"""The samples as the product itself finds them: whatever a reader claims below samples/ is one, with its reader and model.

A format is held to the contracts of tests/contract and tests/golden by one sample of it being there.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis
from tb_plugin.formats.base import Reader, ReadOptions, no_progress
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model_kinds.base import Model
from tb_plugin.service.discovery.scan import Discovery, Root, Scanner
from tb_plugin.storage.files import FileSource, Folder
from tests import toy

REPO = Path(__file__).resolve().parent.parent
SAMPLES = REPO / "samples"
TOYS = Path(toy.__file__).parent / "samples"


@dataclass(frozen=True)
class Sample:
    """A profile below samples/ (or of the toy format of the tests)."""

    name: str
    """Of its only file, or of the folder that its files lie in, relative to the folder of samples."""
    names: tuple[str, ...]
    """Of its files."""
    folder: Path
    reader: Reader[Any]
    model: Model[Any, Any]

    @property
    def source(self) -> FileSource:
        """Its bytes, as a worker process gets them."""
        return FileSource({name: str(self.folder / name) for name in self.names})

    @property
    def size_bytes(self) -> int:
        return sum((self.folder / name).stat().st_size for name in self.names)

    @property
    def analyses(self) -> list[Analysis[Any]]:
        """The views of its model."""
        return [analysis for analysis in (*registry.analyses(), *toy.ANALYSES) if analysis.model is self.model.type]

    def read(self, chunk_bytes: int = 512 * 1024) -> Any:
        """Reads it anew: what its model is made from."""
        return self.reader.read(self.source, ReadOptions(chunk_bytes), no_progress)


OF_TRACES = [analysis for analysis in registry.analyses() if analysis.model is TraceTable]
"""The views of traces."""


def scanned(folder: Path, readers: tuple[Reader[Any], ...]) -> Discovery:
    """Everything that one scan finds, and what it leaves."""
    return Scanner([Root(Folder(str(folder)))], readers).scan()


def _samples(folder: Path, readers: tuple[Reader[Any], ...], models: tuple[Model[Any, Any], ...]) -> list[Sample]:
    found = []
    for profile in scanned(folder, readers).profiles:
        (model,) = [model for model in models if model.raw is profile.reader.raw]
        names = profile.names
        name = names[0] if len(names) == 1 else str(PurePosixPath(names[0]).parent)
        found.append(Sample(name, names, folder, profile.reader, model))
    return sorted(found, key=lambda sample: sample.name)


EVERY = _samples(SAMPLES, registry.readers(), registry.models())
"""The profiles below samples/."""
ONE_OF_MANY = {"ddp_gloo8": "rank5", "synthetic_job": "rank0"}
"""The rank of a run of many that is held to the contracts of all samples: the others are alike."""
OURS = [s for s in EVERY if ONE_OF_MANY.get(s.name.partition("/")[0], "") in s.name]
"""These, one of each run of many ranks."""
ALL = [*OURS, *_samples(TOYS, toy.READERS, toy.MODELS)]
"""With the second model of the tests: what holds for every format and model."""
BY_NAME = {sample.name: sample for sample in (*EVERY, *ALL)}


@functools.cache
def made(name: str) -> Any:
    """The model of a sample, made once a process."""
    sample = BY_NAME[name]
    return sample.model.assemble(sample.read())
