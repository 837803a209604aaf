"""What a profile says of itself in ``profiler_info*.json`` and ``profiler_metadata.json``: rank, job, settings, versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.values import storable

MOST_BYTES = 16 * 1024 * 1024
"""A file of settings is read up to this size; real ones have a few KiB."""
MOST_VALUES = 100_000
"""So many members and items are read; as objects they take up to 40 times their text."""
MOST_RANKS = 10**9
BACKEND = "hccl"
_EMPTY: tuple[Any, ...] = ("", "-", [], {})
"""What stands where nobody set anything."""


def settings_in(content: bytes, log: IssueLog | None = None) -> dict[str, Any]:
    """Returns the object of a JSON file. Raises ValueError where it holds none, nests too deep or is too much."""
    if len(content) > MOST_BYTES or content.count(b",") > MOST_VALUES:
        raise ValueError("it is too large")
    try:
        found = storable(json.loads(content), content, log)
    except RecursionError as error:
        raise ValueError("it nests too deep") from error
    if not isinstance(found, dict):
        raise ValueError("it holds no object")
    return found


def metadata_of(info: Mapping[str, Any], about: Mapping[str, Any], rank: int | None) -> dict[str, Any]:
    """Returns what a trace states beside its events, under the keys that PyTorch's traces have where they say the same."""
    made: dict[str, Any] = {}
    stated = _whole(info.get("rank_id"))
    rank = stated if stated is not None and stated >= 0 else rank
    arguments = about.get("distributed_args")
    arguments = arguments if isinstance(arguments, dict) else {}
    world = _whole(arguments.get("world_size"))
    if rank is not None:
        made["distributedInfo"] = {"backend": BACKEND, "rank": rank, **({"world_size": world} if world else {})}
    settings = info.get("config")
    for group in ("common_config", "experimental_config"):
        values = settings.get(group) if isinstance(settings, dict) else None
        for key, value in values.items() if isinstance(values, dict) else ():
            made[str(key).lstrip("_")] = value
    for key in ("torch_npu_version", "cann_version"):
        if key in info:
            made[key] = info[key]
    made |= {str(key): value for key, value in about.items() if key not in made and key != "parallel_group_info"}
    return _filled(made)


def _filled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that say something: false and 0 do, what was left empty does not."""
    made = {key: _filled(value) if isinstance(value, dict) else value for key, value in settings.items()}
    return {key: value for key, value in made.items() if value is not None and value not in _EMPTY}


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST_RANKS else None
