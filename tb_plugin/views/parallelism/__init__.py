"""The ``parallelism`` view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tb_plugin.analysis.base import Missing, Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

if TYPE_CHECKING:
    from tb_plugin.model.trace.table import TraceTable


def _missing(trace: TraceTable) -> Missing | None:
    from tb_plugin.analysis.parallelism.roles import Role, roles_of

    roles = roles_of(trace)
    # Experts on one device are no parallelism.
    if not roles.among(Role.ROUTE, Role.EXPERTS).all():
        return None
    return Missing("The trace has no sharding, pipelining, offloading or expert parallelism.", "")


VIEW = ViewEntry(
    __name__,
    "parallelism",
    "Parallelism",
    order=305,
    model=TRACE,
    traits=Traits("ranks", hidden=True, phase_note="", tables=("roles",)),
    missing=_missing,
    http=ViewText(
        payloads="`summary` (Figures), `roles` (Table). Both are absent if no work has a role.",
        tables="`roles` (device work by its role in distributed training).",
    ),
)
