"""Interface between readers and views: models.

Each kind of profile has a model. A reader returns the input of a model, and a view declares the model that it
accepts. A trace, which consists of events in time, is one model. All other models have no events.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from tb_plugin.model import codec
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.payloads import ClockInfo, StepInfo, WindowInfo
from tb_plugin.profilers import profiler_by_id

# Selectable steps; events that can be written as Chrome JSON and opened in Perfetto.
Feature = Literal["steps", "events"]
Raw = TypeVar("Raw")
Made = TypeVar("Made")


class Outline(msgspec.Struct, frozen=True):
    """Summary of a loaded profile. It is available without opening the profile again."""

    report: ReadReport
    steps: Sequence[StepInfo] = ()
    window: WindowInfo | None = None
    clock: ClockInfo | None = None
    """Wall-clock time of the recording, if known."""
    all_steps: Sequence[str] = ()
    """Labels of all steps of the trace, if only a window is open."""
    has_replays: bool = False
    """Whether the trace launches CUDA graphs."""
    has_captures: bool = False
    """Whether the trace contains the captures of its CUDA graphs."""
    device_word: str = "GPU"
    """Word for the devices of the profile, as in ``Device.word``."""
    device: str = ""
    """Name of the devices with recorded work. Empty without such work."""


class Model(Protocol[Raw, Made]):
    """Builds, stores and summarises one kind of profile. ``ModelEntry`` implements this protocol."""

    id: str
    """Value of ``Profile.model``, also used in cache keys. It must never change."""
    noun: str
    """Noun for one profile in messages to users, such as "a trace"."""
    version: int
    """Part of every cache key. Increase this number whenever the output of ``write`` changes in content or meaning."""
    default_view: str
    """Id of the view that opens first. This view also contains the notices about the data."""

    features: tuple[Feature, ...]
    """Page features that all profiles of this model support."""

    @property
    def raw(self) -> type[Raw]: ...

    @property
    def type(self) -> type[Made]: ...

    def assemble(self, raw: Raw) -> Made: ...

    def write(self, made: Made, path: str) -> None:
        """Writes the model to a file. Raises OSError."""
        ...

    def read(self, path: str) -> Made:
        """Returns the model in a file, memory-mapped if possible. Raises CacheFileLost."""
        ...

    def outline(self, made: Made) -> Outline: ...

    def open_companion(self, made: Made, path: str) -> None:
        """Opens or creates data next to ``path`` that is too expensive to compute per process. Raises CacheRefused."""
        ...


def as_read(raw: Any) -> Any:
    return raw


def no_clock(made: Any) -> ClockInfo | None:
    return None


class Reported(Protocol):
    @property
    def report(self) -> ReadReport: ...


Filed = TypeVar("Filed", bound=Reported)


class FileModel(msgspec.Struct, Generic[Raw, Filed], eq=False):
    """Storage of a model in one file. Such a model is a frozen Struct of arrays and has no steps."""

    version: int
    type: builtins.type[Filed]
    assembled: Callable[[Raw], Filed] = as_read
    clock: Callable[[Filed], ClockInfo | None] = no_clock

    def assemble(self, raw: Raw) -> Filed:
        return self.assembled(raw)

    def write(self, made: Filed, path: str) -> None:
        codec.write(made, path, self.version, profiler_by_id)

    def read(self, path: str) -> Filed:
        return codec.read(self.type, path, self.version, profiler_by_id)

    def outline(self, made: Filed) -> Outline:
        return Outline(made.report, clock=self.clock(made))

    def open_companion(self, made: Filed, path: str) -> None: ...
