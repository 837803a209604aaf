"""Interface of models, between readers and views.

Each kind of profile has a model type. Readers return its input, and views name the type that they accept. A trace
(events in time) is one model; other models have no events.
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
    """Summary of a loaded profile, available without opening it again."""

    report: ReadReport
    steps: Sequence[StepInfo] = ()
    window: WindowInfo | None = None
    """The opened window, if only a part of the trace was opened."""
    clock: ClockInfo | None = None
    """Wall-clock time of the recording, if known."""
    all_steps: Sequence[str] = ()
    """Labels of all steps of the trace, if only a window was opened."""
    has_replays: bool = False
    """Whether the trace launches captured graphs."""
    has_captures: bool = False
    """Whether the trace contains the captures of its graphs."""


class Model(Protocol[Raw, Made]):
    """Builds, stores and summarises one kind of profile. To add one, add a row to ``rows.py``."""

    id: str
    """Used in ``Profile.model`` and in cache keys. It must never change."""
    noun: str
    """User-facing noun for one profile, such as "a trace"."""
    version: int
    """Part of every cache key. Increase it whenever the output of ``write`` or its meaning changes."""
    default_view: str
    """View that opens first. It counts the notices about the data."""

    features: tuple[Feature, ...]
    """Page features that all profiles of this model support."""

    @property
    def raw(self) -> type[Raw]:
        """Returns the type that readers return."""
        ...

    @property
    def type(self) -> type[Made]:
        """Returns the type that views accept."""
        ...

    def assemble(self, raw: Raw) -> Made:
        """Builds the model from the result of a reader, with all derived data."""
        ...

    def write(self, made: Made, path: str) -> None:
        """Writes the model to a file. Raises OSError."""
        ...

    def read(self, path: str) -> Made:
        """Returns the model in a file, memory-mapped if possible. Raises CacheFileLost."""
        ...

    def outline(self, made: Made) -> Outline:
        """Returns the summary of a profile."""
        ...

    def open_companion(self, made: Made, path: str) -> None:
        """Opens or creates further cached data next to the file ``path``. Raises CacheRefused.

        Use it for data that is too expensive to compute in each process.
        """
        ...


def as_read(raw: Any) -> Any:
    """Returns its argument, for models that equal the result of the reader."""
    return raw


def no_clock(made: Any) -> ClockInfo | None:
    """Returns None, for models without wall-clock time."""
    return None


class Reported(Protocol):
    """A model with a report of its reader."""

    @property
    def report(self) -> ReadReport:
        """Returns the report of the reader."""
        ...


Filed = TypeVar("Filed", bound=Reported)


class FileModel(msgspec.Struct, Generic[Raw, Filed], eq=False):
    """Base for models stored as one file: a frozen Struct of arrays, without steps."""

    id: str
    noun: str
    version: int
    default_view: str
    raw: builtins.type[Raw]
    type: builtins.type[Filed]
    assembled: Callable[[Raw], Filed]
    clock: Callable[[Filed], ClockInfo | None] = no_clock
    features: tuple[Feature, ...] = ()

    def assemble(self, raw: Raw) -> Filed:
        """Builds the model from the result of a reader."""
        return self.assembled(raw)

    def write(self, made: Filed, path: str) -> None:
        """Writes the model to a file. Raises OSError."""
        codec.write(made, path, self.version, profiler_by_id)

    def read(self, path: str) -> Filed:
        """Returns the model in a file, with memory-mapped columns. Raises CacheFileLost."""
        return codec.read(self.type, path, self.version, profiler_by_id)

    def outline(self, made: Filed) -> Outline:
        """Returns the reader's report and the clock."""
        return Outline(made.report, clock=self.clock(made))

    def open_companion(self, made: Filed, path: str) -> None:
        """Does nothing: there are no further files."""
