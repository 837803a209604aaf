"""Communication in packets too small for the link."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.analysis.device_facts import facts_of
from tb_plugin.lib.tables import sorted_by
from tb_plugin.model.trace.job_tables import PACKETS, reported_table
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.payloads import Link
from tb_plugin.rules._base import COMMON, NO_SAVING, Detection, Limit, Rule, Scene, optional, percent

SMALL_SHARE = 0.1
"""Minimum share of small packets in the time of all packets on a link. Every training run sends some small packets."""
METRICS = COMMON.in_steps(
    number={
        "small_packets": ("Small packets", "Packets too small for their link, per step."),
        "most_packets": ("Packets", "Small packets of this operation, over all steps."),
    },
    ns={"small_packets_ns": ("Transfer time", "Time of small packets per step, summed over packets and links.")},
    ratio={"small_packets_ratio": ("Small packets", "Share of packet time in small packets.")},
    bytes={
        "large_packet_bytes": ("Large", "Efficient packet size of the link, from the data sheet."),
        "packet_bytes": ("Size", "Mean packet size of this operation."),
    },
    bytes_per_second={
        "small_packets_rate": ("Rate of small packets", "Small packet bytes divided by their time."),
        "large_packets_rate": ("Rate of large packets", "Large packet bytes divided by their time."),
    },
).defining(
    {
        ("", "code"): {"packet_call": ("Operation", "Operation with the most small packets.")},
        ("", "text"): {"packet_links": ("Links", "Link types with small packets.")},
    }
)


def states_packets(trace: TraceTable) -> bool:
    """Returns whether the trace contains packet sizes."""
    facts = facts_of(trace)
    return facts is not None and bool(facts.packets) and any(table.name == PACKETS for table in trace.reported_tables)


def _packets(s: Scene) -> pa.Table | None:
    """Returns the packets sent in the steps over links whose efficient packet size is known, None if not recorded."""
    facts = facts_of(s.trace)
    if facts is None or not states_packets(s.trace):
        return None
    table = reported_table(s.trace.reported_tables, PACKETS)
    if table is None:
        return None
    known = pc.is_in(table["band"], pa.array([link for link, _ in facts.packets]))
    if s.trace.steps.recorded and pc.any(pc.is_valid(table["step"])).as_py():
        known = pc.and_(known, pc.is_in(table["step"], pa.array(s.steps.label, pa.string())))
    table = table.filter(known).filter(pc.is_valid(pc.field("packet_bytes")) & pc.is_valid(pc.field("count")))
    sizes = pa.table({"band": [link for link, _ in facts.packets], "large": [size for _, size in facts.packets]})
    return table.join(sizes, "band")


def _look(s: Scene) -> Detection | None:
    table = _packets(s)
    if table is None or not len(table):
        return None
    # Floats, because a file may contain any numbers.
    numbers = {key: pc.cast(table[key], pa.float64(), safe=False) for key in ("packet_bytes", "count", "transit_ns")}
    table = table.drop_columns(list(numbers)).append_column(
        "bytes", pc.multiply(numbers["packet_bytes"], numbers["count"])
    )
    for key, values in numbers.items():
        table = table.append_column(key, values)
    small = table.filter(pc.field("packet_bytes") < pc.field("large"))
    large = table.filter(pc.field("packet_bytes") >= pc.field("large"))
    time, others = _sum(small["transit_ns"]), _sum(large["transit_ns"])
    if not len(small) or time <= 0 or time < SMALL_SHARE * (time + others):
        return None
    calls = small.group_by("operation").aggregate([("count", "sum"), ("bytes", "sum")])
    worst = sorted_by(calls, [("count_sum", "descending"), ("operation", "ascending")]).slice(0, 1).to_pylist()[0]
    links = sorted(set(small["band"].to_pylist()))
    notice = s.notice(
        RULE,
        severity="low",
        text=f"{s.per_step_words} {{small_packets}} packets over {{packet_links}} are smaller than {{large_packet_bytes}}. "
        "They take {small_packets_ratio} of the packet time on these links, at {small_packets_rate}"
        + (" ({large_packets_rate} for larger packets)" if others else "")
        + ". {packet_call} sends the most packets: {most_packets} of {packet_bytes}.",
        figures=METRICS.measured(
            small_packets=s.per_step(_sum(small["count"])),
            packet_links=", ".join(links),
            large_packet_bytes=pc.max(small["large"]).as_py(),
            small_packets_ns=s.per_step(time),
            small_packets_ratio=time / (time + others),
            small_packets_rate=_sum(small["bytes"]) / time * 1e9,
            **optional(others, large_packets_rate=_sum(large["bytes"]) / others * 1e9 if others else 0),
            packet_call=worst["operation"],
            most_packets=worst["count_sum"],
            packet_bytes=worst["bytes_sum"] / max(worst["count_sum"], 1),
        ),
        measure="small_packets_ratio",
        threshold=SMALL_SHARE,
        evidence=Link("distributed", {}, "Show communication"),
        why="Each packet has a fixed cost, so small packets never reach the full link rate. The trace does not show how "
        "much of this time overlaps with other work.",
    )
    return Detection(notice, NO_SAVING)


def _sum(values: pa.ChunkedArray) -> float:
    return float(pc.sum(values).as_py() or 0)


RULE = Rule(
    __name__,
    title="Small packets",
    look=_look,
    order=260,
    detects="Communication uses packets that are too small for their links.",
    threshold=f"Small packets take at least {percent(SMALL_SHARE)} of all packet time on such links.",
    saving="None: the times are sums over packets and links, which may overlap.",
    needs="Packet sizes (NPUs: `communication.json`).",
    notes="""
        The vendor gives the smallest efficient packet size: 16 MB for HCCS, PCIE and SIO. The finding shows the
        operation that sends the most small packets, and the rates of small and larger packets.
    """,
    limits=(Limit.COMMUNICATION,),
)
