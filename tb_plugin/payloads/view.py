"""A view: all payloads that a page needs at first."""

from __future__ import annotations

from msgspec import Struct

from tb_plugin.payloads.bands import Bands
from tb_plugin.payloads.base import CoverageInfo
from tb_plugin.payloads.charts import Breakdown, Figures, Heat, Scatter, Series
from tb_plugin.payloads.counters import Counters
from tb_plugin.payloads.flows import Flows
from tb_plugin.payloads.memory_flow import MemoryFlowMap
from tb_plugin.payloads.memory_map import MemoryMap
from tb_plugin.payloads.notice import Notices
from tb_plugin.payloads.table import Table
from tb_plugin.payloads.timeline import Timeline
from tb_plugin.payloads.tree import Tree

Payload = (
    Table
    | Breakdown
    | Series
    | Scatter
    | Tree
    | Notices
    | Figures
    | Timeline
    | Flows
    | Counters
    | Bands
    | MemoryMap
    | MemoryFlowMap
    | Heat
)


class View(Struct, frozen=True, tag_field="kind", tag="view"):
    """The payloads of a view in display order. For a table, only the first page is included."""

    id: str
    title: str
    coverage: CoverageInfo
    payloads: dict[str, Payload]


class ViewInfo(Struct, frozen=True):
    """Whether a view applies to a profile. If not, the reason and how to enable the view."""

    id: str
    title: str
    available: bool
    why: str = ""
    enable: str = ""
    page: str = ""
    """Id of the page that shows the view as a tab."""
    page_title: str = ""
    tab: str = ""
    """Title of the tab."""
    whole: str = ""
    """Reason why the view ignores a selected phase (``Traits.phase_note``); empty = the view uses the phase."""
