"""The model: names and whole numbers. It has neither times, nor steps, nor events."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tb_plugin.errors import CacheFileLost
from tb_plugin.model.trace.report import ReadReport
from tb_plugin.model_kinds.base import Feature, Outline


@dataclass(frozen=True)
class ReadNumbers:
    """What the reader returns."""

    numbers: dict[str, int]
    report: ReadReport


@dataclass(frozen=True, eq=False)
class Numbers:
    """What the analyses take: sorted by name, with their sum."""

    names: tuple[str, ...]
    values: tuple[int, ...]
    total: int
    report: ReadReport


class NumbersModel:
    id = "numbers"
    noun = "a list of numbers"
    version = 1
    default_view = "listed"
    features: tuple[Feature, ...] = ()
    raw = ReadNumbers
    type = Numbers

    def assemble(self, raw: ReadNumbers) -> Numbers:
        names = tuple(sorted(raw.numbers))
        values = tuple(raw.numbers[name] for name in names)
        return Numbers(names, values, sum(values), raw.report)

    def write(self, made: Numbers, path: str) -> None:
        Path(path).write_text(json.dumps(msgspec.to_builtins(made)))

    def read(self, path: str) -> Numbers:
        try:
            kept = json.loads(Path(path).read_text())
            report = ReadReport(**{**kept["report"], "issues": ()})
            return Numbers(tuple(kept["names"]), tuple(kept["values"]), kept["total"], report)
        except (OSError, ValueError, LookupError) as error:
            raise CacheFileLost("The kept numbers are gone.", path, "Ask again.") from error

    def outline(self, made: Numbers) -> Outline:
        return Outline(made.report)

    def open_companion(self, made: Numbers, path: str) -> None:
        """Nothing is kept beside them."""
