"""The page on a bucket, as a person sees it: the same as on the local copy, also while the store is away.

The plugin's routes serve it; tests/web asks a real TensorBoard on each store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Frame, expect

from tb_plugin.storage.files import _filesystem
from tests import stores
from tests.browser import harness
from tests.browser.expect import assert_healthy, assert_shows
from tests.browser.harness import SAMPLES, Tab
from tests.browser.served import served
from tests.depth import DEPTH
from tests.service.fakes import LastingPool

RUN = "synthetic_gpu"
OTHER = "resnet_cpu"
VIEWS = ("overview", "operators", "kernels", "timeline", "memory")
AWAY_MS = 90_000
"""For the page to say that a store went away: the libraries repeat first, then the page asks again."""

Stores = Callable[[str], stores.Store]


@contextmanager
def opened(browser: Browser, server: AbstractContextManager[str]) -> Iterator[Tab]:
    """A tab of a server of its own; it may have had no fault at the end."""
    with server as address, harness.tab(browser, address, bare=True) as tab:
        yield tab
        assert tab.faults == []


def fill(store: stores.Store, monkeypatch: pytest.MonkeyPatch, *runs: str) -> str:
    """Puts samples into a bucket and the way to it into the environment; the URL to give to TensorBoard."""
    for key, value in store.environment.items():
        monkeypatch.setenv(key, value)
    fs, root = _filesystem(store.url)
    if not store.url.startswith("gs") and not fs.exists(root):
        fs.mkdir(root)
    for run in runs:
        for path in sorted((SAMPLES / run).glob("*.json*")):
            fs.pipe(f"{root}/browser/{run}/{path.name}", path.read_bytes())
    return f"{store.url}/browser"


def shown(tab: Tab) -> dict[str, str]:
    """The text of each view of the run, every number as it reads."""
    texts = {}
    for view in VIEWS:
        frame = tab.follow(run=RUN, view=view)
        assert_shows(frame, tab.address, view, {"run": RUN})
        texts[view] = frame.inner_text("#main")
    return texts


@pytest.fixture(scope="module")
def local(browser: Browser, workers: LastingPool, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The views on the local copy."""
    with opened(browser, served(SAMPLES, tmp_path_factory.mktemp("local"), workers)) as tab:
        return shown(tab)


@pytest.mark.parametrize("scheme", ["s3", "gs", "abfs"] if DEPTH == "deep" else ["s3"])
def test_a_bucket_shows_what_the_local_copy_shows(
    scheme: str,
    browser: Browser,
    local: dict[str, str],
    object_stores: Stores,
    workers: LastingPool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The page asks for the same whatever the store; tests/web compares the answers of all three."""
    url = fill(object_stores(scheme), monkeypatch, RUN)
    with opened(browser, served(url, tmp_path, workers)) as tab:
        texts = shown(tab)
    assert "Step time" in texts["overview"] and any(sign.isdigit() for sign in texts["overview"])
    assert texts == local


def trouble(frame: Frame) -> list[str]:
    return frame.locator("[data-testid=offline]").all_inner_texts()


def test_a_store_that_goes_away_and_comes_back(
    browser: Browser, object_stores: Stores, workers: LastingPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = object_stores("s3")
    assert store.door is not None
    url = fill(store, monkeypatch, RUN, OTHER)
    with opened(browser, served(url, tmp_path, workers)) as tab:
        frame = tab.open(run=RUN, view="overview")
        assert trouble(frame) == []
        with store.door.away():
            expect(frame.locator("[data-testid=offline]")).to_contain_text(url, timeout=AWAY_MS)
            # What was loaded stays usable, and what was known stays listed.
            for view in ("operators", "memory"):
                frame = tab.open(run=RUN, view=view)
                assert_shows(frame, tab.address, view, {"run": RUN})
                assert len(trouble(frame)) == 1
            # What was not loaded says why, and waits for a person.
            frame = tab.open(run=OTHER, span="1", view="overview")
            expect(frame.locator("[data-testid=problem]")).to_contain_text(
                "The storage reported an error", timeout=AWAY_MS
            )
        expect(frame.locator("[data-testid=offline]")).to_have_count(0, timeout=AWAY_MS)
        frame.get_by_role("button", name="Try again").click()
        expect(frame.locator("[data-testid=problem]")).to_have_count(0, timeout=AWAY_MS)
        tab.settle()
        assert_shows(frame, tab.address, "overview", {"run": OTHER, "span": "1"})
        assert trouble(frame) == []


def test_one_of_several_directories_that_fails_is_said_beside_the_others(browser: Browser, tmp_path: Path) -> None:
    """Behind a path prefix."""
    gone = tmp_path / "gone"
    spec = f"good:{SAMPLES / RUN},bad:{gone}"
    options = ("--path_prefix", "/deep/er")
    with opened(browser, harness.tensorboard(spec, tmp_path / "cache", *options, flag="--logdir_spec")) as tab:
        assert tab.address.endswith("/deep/er/")
        frame = tab.open(run="good", view="overview")
        assert_healthy(frame)
        assert [str(gone) in text and "does not exist" in text for text in trouble(frame)] == [True]
        gone.mkdir()
        expect(frame.locator("[data-testid=offline]")).to_have_count(0, timeout=AWAY_MS)
        assert_shows(frame, tab.address, "overview", {"run": "good"})
