"""Dumps of flight recorders by hand: what each rank called, as PyTorch pickles it and as it writes JSON."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.flight_recorder.reader import FlightRecorderReader
from tb_plugin.model.flight_recorder import Flight, RawFlight, assembled
from tests.builders import Bytes

EPOCH = 1_795_000_000_000_000_000


def call(
    sequence: int,
    op: str = "all_reduce",
    state: str = "completed",
    sizes: Any = ((4, 3),),
    dtype: str = "Float",
    group: tuple[str, str] = ("0", "default_pg"),
    created: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    """An entry as PyTorch 2.15 writes it; created a microsecond per number."""
    frames = [
        {"filename": "/venv/lib/python3.11/site-packages/torch/distributed/c10d.py", "line": 9, "name": op},
        {"filename": "/home/me/train.py", "line": 40 + sequence % 3, "name": "step"},
    ]
    entry = {
        "record_id": sequence - 1,
        "pg_id": 0,
        "process_group": group,
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "op_id": sequence,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": EPOCH + 1000 * sequence if created is None else created,
        "input_sizes": [list(each) for each in sizes],
        "input_dtypes": [dtype],
        "output_sizes": [list(each) for each in sizes],
        "output_dtypes": [dtype],
        "state": state,
        "time_discovered_started_ns": EPOCH + 1000 * sequence + 100 if state != "scheduled" else None,
        "time_discovered_completed_ns": EPOCH + 1000 * sequence + 400 if state == "completed" else None,
        "retired": state == "completed",
        "timeout_ms": 600000,
        "is_p2p": False,
        "thread_id": "7",
        "thread_name": "python",
        "frames": frames,
    }
    return entry | more


def dump(entries: Sequence[Any], world: int = 2, **more: Any) -> dict[str, Any]:
    """What a rank dumps: its entries, and the group of all ranks."""
    ranks = str(list(range(world)))
    return {
        "version": "2.10",
        "comm_lib_version": "2.27.3",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}},
        "pg_status": {
            "0": {"last_enqueued_collective": -1, "last_started_collective": -1, "last_completed_collective": -1}
        },
        "entries": list(entries),
    } | more


def as_json(root: Mapping[str, Any]) -> bytes:
    """As ``_dump_nccl_trace_json`` writes it: times that are not known are 0, numbers of the status are texts."""
    document = json.loads(json.dumps(root))
    for entry in document["entries"]:
        if isinstance(entry, dict):
            for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
                entry[key] = entry.get(key) or 0
            entry.pop("frames", None)
    for status in document["pg_status"].values():
        for key in status:
            status[key] = str(status[key])
    return json.dumps(document).encode()


def read(content: Any, chunk_bytes: int = 512 * 1024) -> RawFlight:
    text = content if isinstance(content, bytes) else pickle.dumps(content, 2)
    return FlightRecorderReader().read(Bytes(text, "trace_rank_0"), ReadOptions(chunk_bytes), no_progress)


def flight(entries: Sequence[Any], **more: Any) -> Flight:
    return assembled(read(dump(entries, **more)))
