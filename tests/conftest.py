"""Where samples and the shared corpus are, and their models, each built once a session."""

from __future__ import annotations

import functools
import gc
import gzip
import importlib.util
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tb_plugin.cli import session
from tb_plugin.model.trace.table import TraceTable
from tests import stores
from tests.builders import model
from tests.compiled import compile_share
from tests.depth import DEPTH, sampled
from tests.samples import OURS, REPO, SAMPLES, Sample, made
from tests.service.fakes import LastingPool

SHARED = REPO.parent / "shared"
SAMPLE_FILES = [sample.name for sample in OURS if sample.model.type is TraceTable]
"""Every trace under samples/, relative to it."""

DIALECTS = (
    "chromium/", "cuspy_packets_synthetic/", "graph_lanes_synthetic/", "memory_timeline_cpu/", "no_steps_cpu/",
    "synthetic_ascend/rank_0", "synthetic_ascend_db/rank_0", "synthetic_gpu/", "synthetic_graphs/",
    "synthetic_groups/rank0", "synthetic_megengine/4100", "synthetic_serving/", "torch215_cpu/", "viztracer_cpu/",
)  # fmt: skip
UNLIKE = sampled(SAMPLE_FILES, [name for name in SAMPLE_FILES if name.startswith(DIALECTS)])
"""One trace of each dialect, for recounts in plain Python. The contracts and tests/golden take every sample."""


def _says_memory(sample: Sample) -> bool:
    def says(name: str) -> bool:
        data = (SAMPLES / name).read_bytes()
        return b'"[memory]"' in (gzip.decompress(data) if name.endswith(".gz") else data)

    databases = ("/operator_memory.csv", "/ascend_pytorch_profiler_0.db", "/ascend_pytorch_profiler_1.db")
    return any(name.endswith(databases) or says(name) for name in sample.names)


WITH_MEMORY = [sample.name for sample in OURS if sample.model.type is TraceTable and _says_memory(sample)]
"""Those that hold allocations. Nothing is read for it: every process makes these lists, also those that read no sample."""

GROUPS = {
    "emulators": (
        "tests/browser/test_cloud.py",
        "tests/service/test_cloud_summaries.py",
        "tests/service/test_engines.py",
        "tests/storage/test_contract_cloud.py",
        "tests/storage/test_credentials.py",
        "tests/web/test_cloud_tensorboard.py",
    ),
    "timeline": (
        "tests/browser/test_show_in_timeline.py",
        "tests/browser/test_timeline_",
        "tests/browser/test_window.py",
    ),
    "views": ("tests/browser/test_answers.py", "tests/browser/test_boxes.py", "tests/browser/test_views.py"),
    "browser": ("tests/browser/",),
    "agent": ("tests/agent/",),
    "samples": ("tests/contract/", "tests/golden/"),
    "simulated": ("tests/test_planted_findings.py", "tests/test_faults.py"),
    "counted": ("tests/test_counted_work.py", "tests/service/test_window_memory.py"),
}
"""Tests that one process runs after each other, by path: they share a browser or servers, what a simulator has measured, or
watch what a process costs.

The longest stand first, so that no process waits for another at the end."""

MAX_CASES_PER_FILE = 500
"""A test that checks several things of one input is one case, not one per thing."""

__all__ = ["REPO", "SAMPLES", "SAMPLE_FILES", "SHARED", "UNLIKE", "WITH_MEMORY", "loaded", "needs_shared", "sample"]

needs_shared = pytest.mark.skipif(
    not (SHARED / "oracle" / "device_time.json").is_file(),
    reason="no corpus of real traces at ../shared (it is not part of the repository)",
)


def _no_recordings_in_a_hurry() -> None:
    if DEPTH == "quick":
        pytest.skip("make quick reads no recordings")


@functools.lru_cache(maxsize=12)
def loaded(path: str) -> TraceTable:
    """The model of a file below the repository's parent folder; the last dozen are kept."""
    _no_recordings_in_a_hurry()
    return model(REPO.parent / path)


def sample(name: str) -> TraceTable:
    """The model of a trace below samples/, made once a process."""
    _no_recordings_in_a_hurry()
    table: TraceTable = made(name)
    return table


@pytest.fixture(scope="session")
def workers() -> Iterator[LastingPool]:
    """Two worker processes for all tests that are not about the start or the end of one."""
    pool = LastingPool(2, heavy=2)
    yield pool
    pool.end()


@pytest.fixture
def commands_share_workers(monkeypatch: pytest.MonkeyPatch, workers: LastingPool) -> None:
    """Commands that are run in the process of the test take the shared worker processes."""
    monkeypatch.setattr(session, "Pool", lambda size, heavy: workers)


@pytest.fixture(scope="session")
def object_stores() -> Iterator[Callable[[str], stores.Store]]:
    """Gives the emulator of a scheme, started when it is first asked for; skips where it cannot be installed."""
    with ExitStack() as stack:

        @functools.cache
        def started(scheme: str) -> stores.Store:
            return stack.enter_context(stores.STORES[scheme]())

        def get(scheme: str) -> stores.Store:
            for package in stores.PACKAGES[scheme]:
                # Looked for and not imported: gcsfs reads its settings when it is imported.
                if importlib.util.find_spec(package) is None:
                    pytest.skip(f"{package} is not installed")
            if scheme == "abfs" and (why := stores.install_azurite()):
                pytest.skip(why)
            return started(scheme)

        yield get


def pytest_report_header() -> str:
    return f"depth of the tests: {DEPTH}"


def pytest_configure(config: pytest.Config) -> None:
    """Keeps what tests leave in the cache folder of this process and away from the person's own; lets garbage lie longer.

    A process holds the tests, models of samples and what tests share: to look through all of it as often as Python does took
    a tenth of the time.
    """
    gc.set_threshold(50_000, 10, 50)
    if "TORCH_TRACE_CACHE" not in os.environ or hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="torch-trace-tests-")
        config.add_cleanup(folder.cleanup)
        os.environ["TORCH_TRACE_CACHE"] = folder.name
    if worker := getattr(config, "workerinput", None):
        compile_share(config, int(worker["workerid"].removeprefix("gw")), worker["workercount"])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begins with the long groups where several processes share the tests. Raises UsageError where a file has too many."""
    cases = Counter(item.nodeid.partition("::")[0] for item in items)
    if DEPTH != "deep" and (many := [path for path, count in cases.items() if count > MAX_CASES_PER_FILE]):
        raise pytest.UsageError(
            f"More than {MAX_CASES_PER_FILE} cases: {', '.join(many)}. Sample them (tests/depth.py)."
        )
    if hasattr(config, "workerinput"):
        turns = {name: turn for turn, name in enumerate(GROUPS)}
        items.sort(key=lambda item: turns.get(group_of(item.nodeid), len(turns)))


def pytest_collection_finish() -> None:
    """Takes the tests themselves and what they import out of the search for garbage: they stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Returns one process per core and one more: some tests wait, and each process collects tests and starts servers."""
    return 1 + len(os.sched_getaffinity(0))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands the tests to processes by group (``--dist loadscope``).

    The marker ``xdist_group`` would say the same, but renames tests in a way that pytest 9.2 no longer takes notice of.
    """
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return ByGroup(config, log)


def group_of(nodeid: str) -> str:
    """What a test shares or watches, or its file."""
    path = nodeid.partition("::")[0]
    return next((name for name, places in GROUPS.items() if path.startswith(places)), path)
