"""The seam between readers and analyses: what a model is.

A model is a type: readers return what it is made from, analyses say that they are about it, and nobody asks a profile
what it is. A trace (events in time) is one; data that are no events are another.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from tb_plugin.model import codec
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.payloads import ClockInfo, StepInfo, WindowInfo
from tb_plugin.profilers import profiler_named

Feature = Literal["steps", "events"]
"""Steps one can choose; events that can be written as Chrome JSON, and opened in Perfetto."""
Raw = TypeVar("Raw")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Outline:
    """What to tell of a model once it is loaded, without opening it again. A model without steps leaves them out."""

    report: ReadReport
    steps: Sequence[StepInfo] = ()
    """Those one can choose."""
    window: WindowInfo | None = None
    """Where only a part of the source was opened."""
    clock: ClockInfo | None = None
    """When it was recorded, where that is known."""
    whole_steps: Sequence[str] = ()
    """Labels of all steps of the source, where it is a window."""
    has_replays: bool = False
    """Whether captured graphs are launched: another recording may tell more of them."""
    has_captures: bool = False
    """Whether the profile holds captures of graphs that it replays."""


class Model(Protocol[Raw, Made]):
    """A model knows how one kind of profile is made, kept and told. Add one by a row in ``rows.py``."""

    id: str
    """Names the model in ``Profile.model`` and in cache keys; it never changes."""
    noun: str
    """What messages call one profile: "a trace"."""
    version: int
    """Part of every cache key: raise it when what ``write`` writes, or its meaning, changes."""
    default_view: str
    """The view that opens first; notices about the data themselves are counted in it."""

    features: tuple[Feature, ...]
    """What the page may offer for every profile of this model."""

    @property
    def raw(self) -> type[Raw]:
        """Returns the type that readers of this model return."""
        ...

    @property
    def type(self) -> type[Made]:
        """Returns the type that analyses of this model take."""
        ...

    def assemble(self, raw: Raw) -> Made:
        """Returns the model of what a reader returned; everything that is derived from it once."""
        ...

    def write(self, made: Made, path: str) -> None:
        """Writes the model into a file that ``read`` opens; the caller makes it visible to others. Raises OSError."""
        ...

    def read(self, path: str) -> Made:
        """Returns the model in a file, mapped where that can be. Raises CacheFileLost when it is gone or damaged."""
        ...

    def outline(self, made: Made) -> Outline:
        """Returns what to tell of it."""
        ...

    def open_beside(self, made: Made, path: str) -> None:
        """Opens what is kept beside the file at ``path``, and makes it where it is not there. Raises CacheRefused.

        For what takes too long to be worked out anew in each process; most models keep nothing.
        """
        ...


def as_read(raw: Any) -> Any:
    """Returns what the reader returned: it is the model already."""
    return raw


def no_clock(made: Any) -> ClockInfo | None:
    """Returns None: the model states no time of the wall clock."""
    return None


class Reported(Protocol):
    """A model that holds the report of its reader."""

    @property
    def report(self) -> ReadReport:
        """Returns it."""
        ...


Filed = TypeVar("Filed", bound=Reported)


@dataclass(eq=False)
class FileModel(Generic[Raw, Filed]):
    """A Model that is a frozen dataclass of arrays in one file, without steps and with nothing beside it."""

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

    def open_beside(self, made: Filed, path: str) -> None:
        """Opens nothing."""
