"""Column titles of profiles and job analyses."""

from __future__ import annotations

US, MS, MB, GB = 3, 6, 6, 9  # powers of ten: ns per us and ms, bytes per MB (10**6) and GB

# times of a step, us
STEP_TITLES = {
    "computing_ns": "Computing", "exposed_ns": "Communication(Not Overlapped)", "overlapped_ns": "Overlapped",
    "communication_ns": "Communication", "free_ns": "Free", "stage_ns": "Stage", "bubble_ns": "Bubble",
    "exposed_without_receive_ns": "Communication(Not Overlapped and Exclude Receive)", "preparing_ns": "Preparing",
}  # fmt: skip
TIMES_OF_CALL, MOVED_BY_CALL, PACKETS_OF_LINK = (
    "Communication Time Info", "Communication Bandwidth Info", "Size Distribution",
)  # fmt: skip
START = "Start Timestamp(us)"
# times of a call
CALL_TITLES = {
    "elapse_ns": "Elapse Time(ms)", "transit_ns": "Transit Time(ms)", "wait_ns": "Wait Time(ms)",
    "synchronization_ns": "Synchronization Time(ms)", "idle_ns": "Idle Time(ms)",
}  # fmt: skip
SIZE, TRANSIT, RATIO = "Transit Size(MB)", "Transit Time(ms)", "Large Packet Ratio"
TRANSPORT, BANDWIDTH, EXAMPLE = "Transport Type", "Bandwidth(GB/s)", "Op Name"
TOTAL = "Total Op Info"  # name of the entry with the total of all calls
PART_OF = {"HCCS": "SDMA", "PCIE": "SDMA", "SIO": "SDMA"}  # link type -> type whose bytes and times include it
