"""The model of a flight recorder's dump: the last collectives of a rank, and neither events nor steps."""

from __future__ import annotations

import pyarrow.compute as pc

from tb_plugin.model.flight_recorder import arrow
from tb_plugin.model.flight_recorder.table import Flight, RawFlight, assembled
from tb_plugin.model_kinds.base import Feature, Outline
from tb_plugin.payloads import ClockInfo


class FlightModel:
    """A FlightModel knows how the dump of a flight recorder is made, kept and told."""

    id = "flight"
    noun = "a dump of a flight recorder"
    version = arrow.VERSION
    default_view = "collectives"
    features: tuple[Feature, ...] = ()
    raw = RawFlight
    type = Flight

    def assemble(self, raw: RawFlight) -> Flight:
        """Returns the records by number."""
        return assembled(raw)

    def write(self, made: Flight, path: str) -> None:
        """Writes the column file. Raises OSError."""
        arrow.write(made, path)

    def read(self, path: str) -> Flight:
        """Returns it, its columns mapped. Raises KeptLost."""
        return arrow.read(path)

    def outline(self, made: Flight) -> Outline:
        """Returns its report, and when its calls were made."""
        start = made.origin_ns
        end = pc.max(made.records["created_ns"]).as_py()
        return Outline(made.report, clock=ClockInfo(str(start), end - start) if start else None)

    def open_beside(self, made: Flight, path: str) -> None:
        """Keeps nothing beside it."""
