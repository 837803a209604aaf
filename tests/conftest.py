"""Where samples and the shared corpus are, and their models, each built once a session."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tb_plugin.trace.table import TraceTable
from tests import stores
from tests.builders import model

REPO = Path(__file__).resolve().parent.parent
SAMPLES = REPO / "samples"
SHARED = REPO.parent / "shared"
SAMPLE_FILES = sorted(str(p.relative_to(SAMPLES)) for p in SAMPLES.glob("*/*.pt.trace.json*"))
"""Every trace under samples/, relative to it."""

needs_shared = pytest.mark.skipif(
    not (SHARED / "oracle" / "device_time.json").is_file(),
    reason="no corpus of real traces at ../shared (it is not part of the repository)",
)


@functools.lru_cache(maxsize=12)
def loaded(path: str) -> TraceTable:
    """The model of a file below the repository's parent folder; the last dozen are kept."""
    return model(REPO.parent / path)


@functools.cache
def sample(name: str) -> TraceTable:
    """The model of a file below samples/."""
    return model(SAMPLES / name)


# Machines that run these tests are shared and slow: a deadline would measure them.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


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
