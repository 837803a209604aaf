"""The profile that opens first."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tb_plugin.formats.format_entry import TRACE, raw_name
from tb_plugin.service.discovery.title_file import Title
from tb_plugin.service.profile_files import ProfileFiles

# Maximum number of profiles whose first bytes are inspected.
MOST_LOOKS = 32
# Kineto lists the devices before the events. Other writers start with events.
_DEVICE_WORK = re.compile(
    rb'"deviceProperties"\s*:\s*\[\s*\{|"cat"\s*:\s*"(?:kernel|gpu_memcpy|gpu_memset|gpu_user_annotation)"'
)
# Folder of graph captures, as written by vLLM. A capture belongs to the trace of the folder around it.
CAPTURES = "capture_traces"
_RANK = re.compile(r"rank\d+\Z")


def shows_device_work(head: bytes) -> bool:
    """Returns whether the first bytes of a trace show that it contains device work."""
    return _DEVICE_WORK.search(head) is not None


def first_profile(
    found: Sequence[ProfileFiles],
    title_of: Callable[[ProfileFiles], Title],
    has_device_work: Callable[[ProfileFiles], bool],
) -> ProfileFiles | None:
    """Returns the newest recording with device work, else the newest trace, else the newest profile.

    A run that is marked as first comes before all others. Invented runs come last. ``found`` is in the order of the
    page.
    """
    titles = {run: title_of(one) for run, one in {one.run: one for one in found}.items()}
    pool = [one for one in found if titles[one.run].is_first]
    pool = pool or [one for one in found if not titles[one.run].is_invented] or list(found)
    # The sort is stable: of equally old profiles, the first one on the page wins.
    newest = sorted(pool, key=_time, reverse=True)
    traces = [one for one in newest if one.is_present and raw_name(one.reader) == TRACE and not _is_capture(one)]
    with_work = (one for one in traces[:MOST_LOOKS] if len(traces) == 1 or has_device_work(one))
    first = next(with_work, None) or next(iter(traces or newest), None)
    if first is None or _RANK.match(first.worker) is None:
        return first
    # The ranks of a job were recorded at the same time.
    return next(one for one in pool if (one.run, one.span) == (first.run, first.span) and _RANK.match(one.worker))


def _is_capture(one: ProfileFiles) -> bool:
    return one.run.rpartition("/")[2] == CAPTURES


def _time(one: ProfileFiles) -> int:
    """Returns the time in the file name, else the modification time, in milliseconds."""
    return one.time_unix_ms or max(file.modified_ns or 0 for file in one.files) // 1_000_000
