"""Invent the analysis of a job on Ascend NPUs whose right answers are known, for tests on machines without an NPU.

Twelve ranks that never ran anywhere: two stages of a pipeline, each three times (data parallelism), each of these on two
ranks (tensor parallelism). What they do is kept in integer nanoseconds and bytes; writers turn it into the files that
`msprof-analyze cluster` leaves in a folder `cluster_analysis_output`: `text` (of today), `text_2023` and `db`. Nothing
here was recorded, and no number says anything about real hardware. Layouts follow outputs of that tool for other jobs.

Planted: rank 4 computes 30 % longer than the others of its stage, and the others wait for it; the link from rank 3 to rank 5
has a third of the bandwidth of those like it.

In one file: three writers and one truth of the same job.

usage: python samples/synthetic_ascend_cluster.py OUT_DIR [--seed 0] [--export text] [--truth FILE]
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from events import sqlite_file

TENSOR, DATA, PIPELINE = 2, 3, 2
RANKS = TENSOR * DATA * PIPELINE
STEPS = (7, 8)
SLOW_RANK, SLOW_LINK, SLOWER = 4, (3, 5), 3
EPOCH_NS = 1_763_985_600_000_000_000
COMPUTING_NS = (200_000_000, 260_000_000)
"""Of a rank of each stage."""
BYTES = {"tp": 25_165_824, "dp": 50_331_648, "pp": 8_388_608}
SPEED = {"HCCS": 20, "RDMA": 10, "LOCAL": 400}
"""Bytes a nanosecond, which is GB/s."""
BANDS = ("RDMA", "HCCS", "PCIE", "SDMA", "SIO")
TIMES = ("elapse", "transit", "wait", "synchronization", "idle")


@dataclass(frozen=True)
class Group:
    """Ranks that communicate."""

    use: str
    ranks: tuple[int, ...]
    number: str

    @property
    def band(self) -> str:
        return "HCCS" if self.use == "tp" else "RDMA"

    @property
    def kind(self) -> str:
        return "p2p" if self.use == "pp" else "collective"

    @property
    def operation(self) -> str:
        return "hcom_batchSendRecv" if self.use == "pp" else "hcom_allReduce"

    @property
    def links(self) -> list[tuple[int, int]]:
        """A ring; of two both directions."""
        return list(zip(self.ranks, self.ranks[1:] + self.ranks[:1], strict=True))


@dataclass(frozen=True)
class Call:
    """A call on one rank."""

    step: int
    group: Group
    operation: str
    rank: int
    start: int
    transit: int
    wait: int
    synchronization: int
    idle: int
    bytes: int

    @property
    def elapse(self) -> int:
        return self.transit + self.wait + self.idle


@dataclass(frozen=True)
class Link:
    """What went over a link in a step."""

    step: int
    group: Group
    source: int
    destination: int
    transport: str
    bytes: int
    time: int


@dataclass(frozen=True)
class Job:
    """All that happened."""

    steps: dict[tuple[int, int], dict[str, int]]
    """Times by step and rank."""
    groups: list[Group]
    calls: list[Call]
    links: list[Link]


def rank_at(pp: int, dp: int, tp: int) -> int:
    return (pp * DATA + dp) * TENSOR + tp


def place_of(rank: int) -> tuple[int, int, int]:
    """Where a rank is in data parallelism, in the pipeline and in tensor parallelism."""
    return rank // TENSOR % DATA, rank // TENSOR // DATA, rank % TENSOR


def stages() -> list[list[int]]:
    return [[rank for rank in range(RANKS) if place_of(rank)[1] == pp] for pp in range(PIPELINE)]


def groups_of(random_: random.Random) -> list[Group]:
    places = {
        "tp": [[rank_at(pp, dp, tp) for tp in range(TENSOR)] for pp in range(PIPELINE) for dp in range(DATA)],
        "dp": [[rank_at(pp, dp, tp) for dp in range(DATA)] for pp in range(PIPELINE) for tp in range(TENSOR)],
        "pp": [[rank_at(pp, dp, tp) for pp in range(PIPELINE)] for dp in range(DATA) for tp in range(TENSOR)],
        "default_group": [list(range(RANKS))],
    }
    return [
        Group(use, tuple(ranks), str(random_.randrange(10**18, 10**19)))
        for use, lists in places.items()
        for ranks in lists
    ]


def play(seed: int) -> Job:
    """Plays the job through."""
    chance = random.Random(seed)
    groups = groups_of(chance)
    steps, calls, links = {}, [], []
    for step in STEPS:
        began = EPOCH_NS + step * 1_000_000_000
        computing = {
            rank: (COMPUTING_NS[place_of(rank)[1]] + chance.randrange(2_000_000))
            * (130 if rank == SLOW_RANK else 100)
            // 100
            for rank in range(RANKS)
        }
        for group in groups:
            if group.use == "default_group":
                continue
            last = max(computing[rank] for rank in group.ranks)
            name = f"{group.operation}__{int(group.number) % 1000:03}_{step}_1"
            for rank, (source, destination) in zip(group.ranks, group.links, strict=True):
                size = BYTES[group.use]
                slower = SLOWER if (source, destination) == SLOW_LINK else 1
                transit = size * slower // SPEED[group.band] + chance.randrange(1000)
                late = (last - computing[rank]) // 20
                calls.append(
                    Call(step, group, name, rank, began + computing[rank], transit, late + 500, late, 30_000, size)
                )
                links.append(Link(step, group, source, destination, group.band, size, transit))
                links.append(Link(step, group, rank, rank, "LOCAL", size, size // SPEED["LOCAL"]))
        for rank in range(RANKS):
            steps[step, rank] = _step(rank, computing[rank], calls, step, chance)
    return Job(steps, groups, calls, links)


def _step(rank: int, computing: int, calls: list[Call], step: int, chance: random.Random) -> dict[str, int]:
    mine = [call for call in calls if call.step == step and call.rank == rank]
    communication = sum(call.elapse for call in mine)
    receiving = sum(call.elapse for call in mine if call.group.kind == "p2p") if place_of(rank)[1] else 0
    overlapped = communication // 4
    exposed, free = communication - overlapped, 40_000_000 + chance.randrange(2_000_000)
    return {
        "computing": computing, "exposed": exposed, "overlapped": overlapped, "communication": communication, "free": free,
        "stage": computing + exposed + free - receiving, "bubble": receiving,
        "exposed_without_receive": max(exposed - receiving, 0), "preparing": 5_000_000 + chance.randrange(100_000),
    }  # fmt: skip


TITLES = {
    "computing": "Computing", "exposed": "Communication(Not Overlapped)", "overlapped": "Overlapped",
    "communication": "Communication", "free": "Free", "stage": "Stage", "bubble": "Bubble",
    "exposed_without_receive": "Communication(Not Overlapped and Exclude Receive)", "preparing": "Preparing",
}  # fmt: skip
COLUMNS = {
    "computing": "computing", "exposed": "communication_not_overlapped", "overlapped": "overlapped",
    "communication": "communication", "free": "free", "stage": "stage", "bubble": "bubble",
    "exposed_without_receive": "communication_not_overlapped_and_exclude_receive", "preparing": "preparing",
}  # fmt: skip


def stage_times(job: Job, step: int, stage: list[int]) -> dict[str, int]:
    """The largest of each time."""
    return {key: max(job.steps[step, rank][key] for rank in stage) for key in TITLES}


def micro(nanoseconds: int) -> float:
    return nanoseconds / 1000


def milli(nanoseconds: int) -> float:
    return nanoseconds / 1_000_000


def text(job: Job, is_old: bool = False) -> dict[str, bytes]:
    """Files as the tool writes them today, or wrote them in 2023."""
    return {
        "cluster_step_trace_time.csv": _steps_csv(job, is_old),
        "cluster_communication.json": _json(_communication(job, is_old)),
        "cluster_communication_matrix.json": _json(_matrix(job, is_old)),
        "communication_group.json": _json(_groups(job, is_old)),
    }


def text_2023(job: Job) -> dict[str, bytes]:
    return text(job, is_old=True)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _steps_csv(job: Job, is_old: bool) -> bytes:
    out = io.StringIO()
    keys = [key for key in TITLES if not (is_old and key == "preparing")]
    writer = csv.writer(out)
    more = [] if is_old else ["DP Index", "PP Index", "TP Index"]
    writer.writerow(["Step", "Type", "Index", *(TITLES[key] for key in keys), *more])
    for step in STEPS:
        for rank in range(RANKS):
            places = [] if is_old else list(place_of(rank))
            writer.writerow([step, "rank", rank, *(micro(job.steps[step, rank][key]) for key in keys), *places])
        for stage in stages():
            times = stage_times(job, step, stage)
            writer.writerow([step, "stage", tuple(stage), *(micro(times[key]) for key in keys), *("NA" for _ in more)])
    return out.getvalue().encode()


def _outer(group: Group, is_old: bool) -> str:
    return "p2p" if is_old and group.kind == "p2p" else str(group.ranks)


def _total(group: Group, is_old: bool) -> str:
    return "Total Op Info" if is_old else f"Total Op Info@{group.number}"


def _times(calls: list[Call]) -> dict[str, float]:
    sums = {key: sum(getattr(call, key) for call in calls) for key in TIMES}
    made = {f"{key.capitalize()} Time(ms)": milli(value) for key, value in sums.items()}
    for word in ("wait", "synchronization"):
        whole = sums[word] + sums["transit"]
        made[f"{word.capitalize()} Time Ratio"] = round(sums[word] / whole, 4) if whole else 0
    return made


def _bands(calls: list[Call], is_total: bool) -> dict[str, Any]:
    size, time = sum(call.bytes for call in calls), sum(call.transit for call in calls)
    made = {}
    for band in BANDS:
        moved = band == calls[0].group.band or (band == "SDMA" and calls[0].group.band == "HCCS")
        packets = {str(size / 1e6): [len(calls), milli(time)]} if moved and band != "SDMA" else {}
        made[band] = {
            "Transit Size(MB)": size / 1e6 if moved else 0,
            "Transit Time(ms)": milli(time) if moved else 0,
            "Bandwidth(GB/s)": round(size / time, 4) if moved else 0,
            **({} if is_total else {"Large Packet Ratio": 1.0 if packets else 0}),
            "Size Distribution": packets,
        }
    return made


def _communication(job: Job, is_old: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    sums: dict[tuple[str, str, str, int], list[Call]] = {}
    for call in job.calls:
        outer, step = _outer(call.group, is_old), f"step{call.step}"
        entry = made.setdefault(outer, {}).setdefault(step, {})
        times = {"Start Timestamp(us)": micro(call.start), **_times([call])}
        entry.setdefault(f"{call.operation}@{call.group.number}", {})[str(call.rank)] = {
            "Communication Time Info": times,
            "Communication Bandwidth Info": _bands([call], is_total=False),
        }
        sums.setdefault((outer, step, _total(call.group, is_old), call.rank), []).append(call)
    for (outer, step, total, rank), calls in sums.items():
        made[outer][step].setdefault(total, {})[str(rank)] = {
            "Communication Time Info": _times(calls),
            "Communication Bandwidth Info": _bands(calls, is_total=True),
        }
    return made


def _link(link: Link, example: str) -> dict[str, Any]:
    return {
        "Transport Type": link.transport, "Transit Time(ms)": milli(link.time), "Transit Size(MB)": link.bytes / 1e6,
        "Op Name": example, "Bandwidth(GB/s)": round(link.bytes / link.time, 4),
    }  # fmt: skip


def _names(link: Link, is_old: bool) -> dict[str, str]:
    """Under which keys a link stands, with its example: each group has one call a step, so that all rows are alike."""
    name = next(iter({f"{link.group.operation}__{int(link.group.number) % 1000:03}_{link.step}_1"}))
    if is_old:
        return {f"{name}@{link.group.number}": "", "Total Op Info": ""}
    kind = link.group.operation.removeprefix("hcom_").lower()
    return {
        **{f"{kind}-{place}@{link.group.number}": name for place in ("top1", "middle", "bottom1")},
        f"{kind}-total@{link.group.number}": "",
        f"Total Op Info@{link.group.number}": "",
    }


def _matrix(job: Job, is_old: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for link in job.links:
        entry = made.setdefault(_outer(link.group, is_old), {}).setdefault(f"step{link.step}", {})
        for key, example in _names(link, is_old).items():
            entry.setdefault(key, {})[f"{link.source}-{link.destination}"] = _link(link, example)
    return made


def _groups(job: Job, is_old: bool) -> dict[str, Any]:
    if is_old:
        return {"collective": [list(group.ranks) for group in job.groups], "p2p": stages()}
    return {
        **{kind: [list(one.ranks) for one in job.groups if one.kind == kind] for kind in ("collective", "p2p")},
        "comm_group_parallel_info": [
            {
                "type": one.kind,
                "rank_set": list(one.ranks),
                "group_name": one.number,
                "group_id": f"invented_{one.number[:6]}",
                "pg_name": one.use,
            }
            for one in job.groups
        ],
    }


def db(job: Job) -> dict[str, bytes]:
    """The database that the tool writes where profiles are databases. It lists no stages."""
    tables: dict[str, str] = {}
    rows: dict[str, list[tuple[Any, ...]]] = {}

    def table(name: str, columns: str, listed: list[tuple[Any, ...]]) -> None:
        tables[name], rows[name] = columns, listed

    table(
        "ClusterStepTraceTime",
        f'step TEXT, type TEXT, "index" TEXT, {", ".join(COLUMNS.values())}, dp_index, pp_index, tp_index',
        [
            (str(step), "rank", str(rank), *(micro(times[key]) for key in COLUMNS), *place_of(rank))
            for (step, rank), times in job.steps.items()
        ],
    )
    table(
        "ClusterCommunicationTime",
        "step TEXT, rank_id INTEGER, hccl_op_name TEXT, group_name TEXT, start_timestamp REAL, elapsed_time REAL, "
        "transit_time REAL, wait_time REAL, synchronization_time REAL, idle_time REAL",
        [
            (f"step{call.step}", call.rank, call.operation, call.group.number, micro(call.start),
             *(milli(getattr(call, key)) for key in TIMES))
            for call in job.calls
        ],
    )  # fmt: skip
    bands = []
    for call in job.calls:
        for band, moved in _bands([call], is_total=False).items():
            size, packets = moved["Transit Size(MB)"], moved["Size Distribution"]
            counted = [(float(each), *found) for each, found in packets.items()] or [(0.0, 0, 0.0)]
            bands += [
                (f"step{call.step}", call.rank, call.operation, call.group.number, band, size, moved["Transit Time(ms)"],
                 moved["Bandwidth(GB/s)"], moved["Large Packet Ratio"], *each)
                for each in counted
                if size
            ]  # fmt: skip
    table(
        "ClusterCommunicationBandwidth",
        "step TEXT, rank_id INTEGER, hccl_op_name TEXT, group_name TEXT, band_type TEXT, transit_size REAL, "
        "transit_time REAL, bandwidth REAL, large_packet_ratio REAL, package_size REAL, count INTEGER, total_duration REAL",
        bands,
    )
    table(
        "ClusterCommunicationMatrix",
        "step TEXT, hccl_op_name TEXT, group_name TEXT, src_rank REAL, dst_rank REAL, transport_type TEXT, op_name TEXT, "
        "transit_size REAL, transit_time REAL, bandwidth REAL",
        [
            (f"step{link.step}", key.partition("@")[0], link.group.number, float(link.source), float(link.destination),
             link.transport, example, link.bytes / 1e6, milli(link.time), round(link.bytes / link.time, 4))
            for link in job.links
            for key, example in _names(link, is_old=False).items()
        ],
    )  # fmt: skip
    table(
        "CommunicationGroupMapping",
        "type TEXT, rank_set TEXT, group_name TEXT, group_id TEXT, pg_name TEXT",
        [
            (one.kind, f"({','.join(map(str, one.ranks))})", one.number, f"invented_{one.number[:6]}", one.use)
            for one in job.groups
        ],
    )
    sizes = {"tensor": TENSOR, "pipeline": PIPELINE}
    arguments = {f"{key}_model_parallel_size": size for key, size in sizes.items()}
    about = json.dumps({**arguments, "data_parallel_size": DATA, "world_size": RANKS})
    table("ClusterBaseInfo", "key TEXT, value TEXT", [("distributed_args", about)])
    return {"cluster_analysis.db": sqlite_file(tables, rows)}


WRITERS = {"text": text, "text_2023": text_2023, "db": db}


def truth_document(job: Job, run: str, seed: int) -> dict[str, Any]:
    """The right answers, counted from what happened."""
    moved: dict[tuple[int, int, str], list[int]] = {}
    for link in job.links:
        sums = moved.setdefault((link.source, link.destination, link.transport), [0, 0])
        sums[0] += link.bytes
        sums[1] += link.time
    traffic: dict[tuple[str, int], dict[str, int]] = {}
    for call in job.calls:
        found = traffic.setdefault((call.group.number, call.rank), {"calls": 0, **dict.fromkeys(TIMES, 0)})
        found["calls"] += 1
        for key in TIMES:
            found[key] += getattr(call, key)
    return {
        "run": run, "synthetic": True, "made_by": "samples/synthetic_ascend_cluster.py, not recorded",
        "config": {"seed": seed}, "stages": stages(), "slow_rank": SLOW_RANK, "slow_link": list(SLOW_LINK),
        "groups": [{"name": one.use, "group": one.number, "ranks": list(one.ranks)} for one in job.groups],
        "steps": [{"step": step, "rank": rank, **times} for (step, rank), times in job.steps.items()],
        "stage_steps": [
            {"step": step, "ranks": stage, **stage_times(job, step, stage)} for step in STEPS for stage in stages()
        ],
        "communication": [{"group": group, "rank": rank, **found} for (group, rank), found in traffic.items()],
        "links": [
            {"source": source, "destination": destination, "transport": transport, "bytes": sums[0], "time": sums[1]}
            for (source, destination, transport), sums in sorted(moved.items())
        ],
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--export", choices=sorted(WRITERS), default="text")
    parser.add_argument("--truth", type=Path)
    options = parser.parse_args(arguments)
    job = play(options.seed)
    folder = options.out / "cluster_analysis_output"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in WRITERS[options.export](job).items():
        (folder / name).write_bytes(content)
    if options.truth:
        truth = truth_document(job, options.out.name, options.seed)
        options.truth.write_text(json.dumps(truth, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
