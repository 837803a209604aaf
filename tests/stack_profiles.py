"""Files of stacks by hand: folded text, and documents of speedscope."""

from __future__ import annotations

import json
from typing import Any

from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.stack_files.reader import StackFilesReader
from tb_plugin.model.stack_profile import StackProfile
from tests.builders import Bytes


def stack_profile(
    content: str | bytes | dict[str, Any], name: str = "x.folded", chunk_bytes: int = 512 * 1024
) -> StackProfile:
    """What the reader makes of a file."""
    text = json.dumps(content) if isinstance(content, dict) else content
    data = text.encode() if isinstance(text, str) else text
    return StackFilesReader().read(Bytes(data, name), ReadOptions(chunk_bytes), no_progress)


def speedscope(frames: list[Any], *profiles: dict[str, Any]) -> dict[str, Any]:
    """A document of some profiles."""
    named = [{"name": frame} if isinstance(frame, str) else frame for frame in frames]
    schema = "https://www.speedscope.app/file-format-schema.json"
    return {"$schema": schema, "shared": {"frames": named}, "profiles": list(profiles)}


def samples_of(samples: list[list[int]], weights: list[Any], unit: str = "nanoseconds", **more: Any) -> dict[str, Any]:
    """A profile of samples."""
    return {"type": "sampled", "name": "t", "unit": unit, "samples": samples, "weights": weights, **more}


def evented(*events: tuple[str, int, Any], unit: str = "nanoseconds", **more: Any) -> dict[str, Any]:
    """A profile of frames that are opened and closed."""
    listed = [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events]
    return {"type": "evented", "name": "t", "unit": unit, "events": listed, **more}


def stacks(profile: StackProfile) -> dict[str, int]:
    """What was counted at each place, by the path of names; of several threads with the thread ahead."""
    places, names = profile.places, profile.names.to_pylist()
    paths: list[str] = []
    found: dict[str, int] = {}
    columns = (places.label, places.parent, places.thread, places.own)
    for label, parent, thread, own in zip(*(column.tolist() for column in columns), strict=True):
        above = paths[parent] + ";" if parent >= 0 else f"{thread}:" if len(profile.threads) > 1 else ""
        paths.append(above + names[label])
        if own:
            assert paths[-1] not in found
            found[paths[-1]] = own
    return found
