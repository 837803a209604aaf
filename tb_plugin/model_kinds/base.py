"""The interface of a model, between readers and analyses.

A model is a type: readers return its input, and views name the model they accept, without checks on the kind of
profile. A trace (events in time) is one model; others have no events.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from tb_plugin.model import codec
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.payloads import ClockInfo, StepInfo, WindowInfo
from tb_plugin.profilers import profiler_named

# Selectable steps; events that can be written as Chrome JSON and opened in Perfetto.
Feature = Literal["steps", "events"]
Raw = TypeVar("Raw")
Made = TypeVar("Made")


class Outline(msgspec.Struct, frozen=True):
    """Summary of a loaded model, so that it need not be opened again. Models without steps omit them."""

    report: ReadReport
    steps: Sequence[StepInfo] = ()
    window: WindowInfo | None = None
    """The window, if only a part of the source was opened."""
    clock: ClockInfo | None = None
    """Wall time of the recording, if known."""
    all_steps: Sequence[str] = ()
    """Labels of all steps of the source, if it is a window."""
    has_replays: bool = False
    """Whether captured graphs are launched, which another recording may describe."""
    has_captures: bool = False
    """Whether the profile contains captures of graphs that it replays."""


class Model(Protocol[Raw, Made]):
    """Defines how one kind of profile is built, stored and summarised. Add one by a row in ``rows.py``."""

    id: str
    """Names the model in ``Profile.model`` and in cache keys; it never changes."""
    noun: str
    """Word for one profile in messages: "a trace"."""
    version: int
    """Part of every cache key: raise it when the output of ``write``, or its meaning, changes."""
    default_view: str
    """The view that opens first; it counts the notices about the data."""

    features: tuple[Feature, ...]
    """Features of the page for every profile of this model."""

    @property
    def raw(self) -> type[Raw]:
        """Returns the type that readers of this model return."""
        ...

    @property
    def type(self) -> type[Made]:
        """Returns the type that analyses of this model take."""
        ...

    def assemble(self, raw: Raw) -> Made:
        """Returns the model from the result of a reader, with everything that is derived once."""
        ...

    def write(self, made: Made, path: str) -> None:
        """Writes the model into a file that ``read`` opens; the caller makes it visible to others. Raises OSError."""
        ...

    def read(self, path: str) -> Made:
        """Returns the model in a file, mapped if possible. Raises CacheFileLost when it is missing or damaged."""
        ...

    def outline(self, made: Made) -> Outline:
        """Returns its summary."""
        ...

    def open_companion(self, made: Made, path: str) -> None:
        """Opens cached data next to the file at ``path``, or creates it. Raises CacheRefused.

        It is for data that is too expensive to compute in each process; most models have none.
        """
        ...


def as_read(raw: Any) -> Any:
    """Returns its argument: the result of the reader is the model."""
    return raw


def no_clock(made: Any) -> ClockInfo | None:
    """Returns None: the model has no wall time."""
    return None


class Reported(Protocol):
    """A model with the report of its reader."""

    @property
    def report(self) -> ReadReport:
        """Returns the report."""
        ...


Filed = TypeVar("Filed", bound=Reported)


class FileModel(msgspec.Struct, Generic[Raw, Filed], eq=False):
    """A Model that is a frozen dataclass of arrays in one file, without steps and further files."""

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
        """Returns the model."""
        return self.assembled(raw)

    def write(self, made: Filed, path: str) -> None:
        """Writes its file. Raises OSError."""
        codec.write(made, path, self.version, profiler_named)

    def read(self, path: str) -> Filed:
        """Returns the model, its columns mapped. Raises CacheFileLost."""
        return codec.read(self.type, path, self.version, profiler_named)

    def outline(self, made: Filed) -> Outline:
        """Returns its report and its clock."""
        return Outline(made.report, clock=self.clock(made))

    def open_companion(self, made: Filed, path: str) -> None:
        """Opens nothing."""
