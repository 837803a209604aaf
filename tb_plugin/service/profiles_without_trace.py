"""Profiles that have a rank summary but no trace."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.errors import NotFoundError, UnreadableTrace
from tb_plugin.payloads import ViewInfo
from tb_plugin.service.profile_files import ProfileFiles
from tb_plugin.service.summaries import VIEW
from tb_plugin.service.summaries.format import (
    SummaryHeader,
    SummaryRefused,
    Wanted,
    check_header,
    check_stamp,
    content_of,
    read_header,
)
from tb_plugin.service.workers.model_cache import OpenModels
from tb_plugin.service.workers.parse import expected_view
from tb_plugin.service.workers.parse_result import Summary
from tb_plugin.service.workers.question import Report
from tb_plugin.storage.checksum import Seal
from tb_plugin.storage.files import open_local
from tb_plugin.storage.safe_open import Located

WHY = "The trace is missing. For this rank, the log directory has only a summary, which only the Distributed view uses."
DO = "Open the log directory that contains the trace."
_ANEW = "Compute the summary again with torch-trace summarize."


class OpenSummary(msgspec.Struct, frozen=True):
    """Reads the profile in a rank summary.

    ``model`` is the model of the trace. ``where`` is the path shown to users.
    """

    file: str | Located
    model: str
    where: str
    wanted: Wanted | None = None
    """Files and settings that the summary must match; None = any."""

    def answer(self, models: OpenModels, report: Report) -> Summary:
        """Returns the summary of the profile. Raises UnreadableTrace, StorageError."""
        try:
            with open_local(self.file) as stream:
                about = read_header(content_of(stream))
            if self.wanted is None:
                check_stamp(about)
            else:
                check_header(about, self.wanted)
        except SummaryRefused as error:
            raise UnreadableTrace(f"The trace is missing, and its summary {error}.", self.where, _ANEW) from error
        return _summary(about, self.model)


def _summary(about: SummaryHeader, model_id: str) -> Summary:
    shown = [view for view in registry.views_of(registry.model_by_id(model_id)) if view.traits.place != "detail"]
    views = [_view(expected_view(view)) for view in shown if not view.traits.hidden]
    return Summary(about.steps, views, about.read, 0, Seal(0, 0))


def _view(view: ViewInfo) -> ViewInfo:
    return view if view.id == VIEW else replace(view, available=False, why=WHY)


def missing_trace_error(found: ProfileFiles, refused: str = "") -> NotFoundError:
    """Returns the error for a request that needs the missing trace.

    ``refused`` is the reason why the rank summary cannot be used either.
    """
    if refused:
        return NotFoundError(f"The trace is missing, and its summary {refused}.", found.url, _ANEW)
    return NotFoundError(WHY, found.url, DO)
