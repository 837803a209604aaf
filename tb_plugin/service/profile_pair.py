"""A comparison of two profiles."""

from __future__ import annotations

from typing import Any

import msgspec

from tb_plugin import registry
from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest
from tb_plugin.payloads import CaptureInfo, Table, View
from tb_plugin.service.catalog import Place, place_of
from tb_plugin.service.states import Entry
from tb_plugin.service.workspace import Workspace


class Pair(msgspec.Struct, frozen=True):
    """A baseline and an experiment of the same model, in one workspace."""

    workspace: Workspace
    base: Entry
    exp: Entry
    view_id: str
    base_steps: str = ""
    exp_steps: str = ""
    base_capture: str = ""
    exp_capture: str = ""
    per: str = "step"

    @property
    def places(self) -> tuple[Place, Place]:
        return place_of(self.base, self.base_capture), place_of(self.exp, self.exp_capture)

    @property
    def captures(self) -> tuple[CaptureInfo | None, CaptureInfo | None]:
        base, exp = (self.workspace.profile(place, start=False).capture for place in self.places)
        return base, exp

    def params(self, table: str | None = None, limit: int | None = None, measure: str = "") -> Params:
        run, worker, span = self.base.key
        extra = {"base_run": run, "base_worker": worker, "base_span": span, "base_steps": self.base_steps}
        extra |= {"base_capture": self.base_capture, "per": self.per, "measure": measure}
        return Params(table=table, limit=limit, extra=tuple((key, value) for key, value in extra.items() if value))

    def view(self, limit: int, measure: str = "") -> View:
        params = self.params(limit=limit, measure=measure)
        answer = self.workspace.group(self.places[1], self.view_id, params, self.exp_steps)
        return msgspec.json.decode(answer, type=View)

    def arrow(self, table: str) -> bytes:
        """Returns all rows of a table as an Arrow IPC stream."""
        params = self.params(table, measure="all")
        return self.workspace.arrow(self.places[1], self.view_id, params, self.exp_steps)

    def rows(self, table: str, limit: int | None) -> list[dict[str, Any]]:
        params = self.params(table, limit, measure="all")
        return msgspec.json.decode(
            self.workspace.group(self.places[1], self.view_id, params, self.exp_steps), type=Table
        ).rows


def pair_view(base: Entry, exp: Entry) -> str:
    """Returns the id of the view that compares these profiles. Raises BadRequest if they are not of one kind."""
    one, other = (registry.model_of(entry.files.reader) for entry in (base, exp))
    if one is not other:
        what = f"The baseline is {one.noun}, but the experiment is {other.noun}."
        raise BadRequest(what, exp.files.url, "Choose two profiles of the same kind.")
    for analysis in registry.views_of(one):
        if analysis.scope == "pair":
            return analysis.id
    raise BadRequest(
        f"Profiles of this kind ({one.noun}) cannot be compared.",
        exp.files.url,
        "Run torch-trace report for each profile.",
    )
