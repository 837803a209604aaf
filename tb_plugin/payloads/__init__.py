"""Payloads: the data types of server responses.

TypeScript types are generated from these classes (``make types``).
"""

from tb_plugin.payloads.bands import Bands, BandsEnvelope
from tb_plugin.payloads.base import CoverageInfo, Figure, Link, Metric, Scalar, Unit, WindowInfo
from tb_plugin.payloads.catalog import (
    CaptureInfo,
    Catalog,
    ClockInfo,
    How,
    IssueInfo,
    Loading,
    PathMapping,
    Problem,
    Profile,
    ProfileName,
    ReadInfo,
    RunInfo,
    Skipped,
    SpanInfo,
    Stage,
    State,
    StepInfo,
    WorkerInfo,
)
from tb_plugin.payloads.charts import (
    Breakdown,
    Dots,
    Figures,
    Grouping,
    Heat,
    Interval,
    Limit,
    Line,
    Scatter,
    Series,
    Slice,
)
from tb_plugin.payloads.counters import Counter, Counters
from tb_plugin.payloads.flows import Flows
from tb_plugin.payloads.memory_flow import MemoryFlowMap
from tb_plugin.payloads.memory_map import MapGroup, MemoryMap
from tb_plugin.payloads.notice import Notice, Notices, Reference, Saving, Severity
from tb_plugin.payloads.report import Report, ReportEvents, ReportTimeline, ReportView
from tb_plugin.payloads.table import Column, Sort, Table
from tb_plugin.payloads.timeline import Timeline, TimelineLevel, TimelineTrack
from tb_plugin.payloads.tree import Tree
from tb_plugin.payloads.view import Payload, View, ViewInfo

__all__ = [
    "Bands", "BandsEnvelope", "Breakdown", "CaptureInfo", "Catalog", "ClockInfo", "Column", "Counter", "Counters",
    "CoverageInfo", "Dots", "Figure", "Figures", "Flows", "Grouping", "Heat", "How", "Interval", "IssueInfo", "Limit",
    "Line", "Link",
    "Loading", "MapGroup", "MemoryFlowMap", "MemoryMap", "Metric", "Notice", "Notices", "PathMapping", "Payload", "Problem",
    "Profile", "ProfileName", "ReadInfo", "Reference", "Report", "ReportEvents", "ReportTimeline", "ReportView", "RunInfo",
    "Saving", "Scalar", "Scatter", "Series", "Severity",
    "Skipped", "Slice", "Sort", "SpanInfo", "Stage", "State", "StepInfo", "Table", "Timeline", "TimelineLevel",
    "TimelineTrack", "Tree", "Unit", "View", "ViewInfo", "WindowInfo", "WorkerInfo",
]  # fmt: skip
