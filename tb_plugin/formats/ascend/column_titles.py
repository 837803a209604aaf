"""What files about the ranks of a job call their columns: those of a rank and those of an analysis of all have the same."""

from __future__ import annotations

US, MS, MB, GB = 3, 6, 6, 9
"""Powers of ten: nanoseconds to the microsecond and millisecond, bytes to the megabyte (a million) and gigabyte."""

STEP_TITLES = {
    "computing_ns": "Computing", "exposed_ns": "Communication(Not Overlapped)", "overlapped_ns": "Overlapped",
    "communication_ns": "Communication", "free_ns": "Free", "stage_ns": "Stage", "bubble_ns": "Bubble",
    "exposed_without_receive_ns": "Communication(Not Overlapped and Exclude Receive)", "preparing_ns": "Preparing",
}  # fmt: skip
"""Times of a step, in us."""
TIMES_OF_CALL, MOVED_BY_CALL, PACKETS_OF_LINK = (
    "Communication Time Info", "Communication Bandwidth Info", "Size Distribution",
)  # fmt: skip
START = "Start Timestamp(us)"
CALL_TITLES = {
    "elapse_ns": "Elapse Time(ms)", "transit_ns": "Transit Time(ms)", "wait_ns": "Wait Time(ms)",
    "synchronization_ns": "Synchronization Time(ms)", "idle_ns": "Idle Time(ms)",
}  # fmt: skip
"""Times of a call."""
SIZE, TRANSIT, RATIO = "Transit Size(MB)", "Transit Time(ms)", "Large Packet Ratio"
TRANSPORT, BANDWIDTH, EXAMPLE = "Transport Type", "Bandwidth(GB/s)", "Op Name"
TOTAL = "Total Op Info"
"""What stands in place of the name of a call where all calls are summed up."""
PART_OF = {"HCCS": "SDMA", "PCIE": "SDMA", "SIO": "SDMA"}
"""Kinds of links whose bytes and times another kind holds once more."""
