"""Rank, job, settings and versions from a profile's JSON files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.values import to_storable

MOST_BYTES = 16 * 1024 * 1024  # limit for a settings file; real files have a few KiB
MOST_VALUES = 100_000  # limit on members and items; in memory, they take up to 40 times their text
MOST_RANKS = 10**9
BACKEND = "hccl"
_EMPTY: tuple[Any, ...] = ("", "-", [], {})  # values of unset options


def settings_in(content: bytes, log: IssueLog | None = None) -> dict[str, Any]:
    """Returns the JSON object in a file. Raises ValueError if it is missing, too deep or too large."""
    if len(content) > MOST_BYTES or content.count(b",") > MOST_VALUES:
        raise ValueError("the file is too large")
    try:
        found = to_storable(json.loads(content), content, log)
    except RecursionError as error:
        raise ValueError("the file is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("the file contains no object")
    return found


def metadata_of(info: Mapping[str, Any], about: Mapping[str, Any], rank: int | None) -> dict[str, Any]:
    """Returns trace metadata. Uses the keys of PyTorch traces where possible."""
    made: dict[str, Any] = {}
    stated = _integer(info.get("rank_id"))
    rank = stated if stated is not None and stated >= 0 else rank
    arguments = about.get("distributed_args")
    arguments = arguments if isinstance(arguments, dict) else {}
    world = _integer(arguments.get("world_size"))
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
    """Removes empty values from the settings. False and 0 are not empty."""
    made = {key: _filled(value) if isinstance(value, dict) else value for key, value in settings.items()}
    return {key: value for key, value in made.items() if value is not None and value not in _EMPTY}


def _integer(value: Any) -> int | None:
    if isinstance(value, str) and value.lstrip("-").isdecimal() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST_RANKS else None
