"""A real TensorBoard on a bucket answers what it answers on the local copy, also while the store is away."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from tb_plugin.storage.files import _filesystem
from tests.browser.harness import tensorboard
from tests.conftest import SAMPLES

RUN = "resnet_cpu"
PATIENCE_SECONDS = 90


def ask(base, path, wanted):
    """The JSON of a path as soon as ``wanted`` likes it."""
    end, seen = time.monotonic() + PATIENCE_SECONDS, None
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{base}data/plugin/torch_trace/{path}", timeout=30) as answer:
                seen = json.load(answer)
        except urllib.error.HTTPError as error:
            seen = json.loads(error.read())
        if wanted(seen):
            return seen
        time.sleep(0.2)
    raise AssertionError(f"{path} stayed {seen}")


def overview(base):
    catalog = ask(base, "runs", lambda seen: seen.get("runs"))
    run = catalog["runs"][0]
    worker = run["workers"][0]
    place = {"run": run["name"], "worker": worker["name"], "span": worker["spans"][0]["id"]}
    return ask(base, f"view/overview?{urllib.parse.urlencode(place)}", lambda seen: "payloads" in seen)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    with tensorboard(SAMPLES / RUN, tmp_path_factory.mktemp("local")) as base:
        return overview(base)


@pytest.mark.parametrize("scheme", ["s3", "gs", "abfs"])
def test_a_bucket_shows_what_the_local_copy_shows(scheme, expected, object_stores, tmp_path, monkeypatch):
    store = object_stores(scheme)
    for key, value in store.environment.items():
        monkeypatch.setenv(key, value)
    fs, root = _filesystem(store.url)
    if scheme != "gs" and not fs.exists(root):
        fs.mkdir(root)
    for path in sorted((SAMPLES / RUN).glob("*.json*")):
        fs.pipe(f"{root}/web/{RUN}/{path.name}", path.read_bytes())
    # Below a prefix, as a training writes it; TensorBoard reads the same place for its own files.
    with tensorboard(f"{store.url}/web/{RUN}", tmp_path / "remote") as base:
        assert overview(base) == expected
        if scheme != "s3":
            return  # the trouble takes half a minute to be noticed; once is enough
        store.door.mode = "error"
        try:
            trouble = ask(base, "runs", lambda seen: seen["problems"])
            assert trouble["runs"], "what was known stays"
            assert overview(base) == expected
        finally:
            store.door.mode = "pass"
        ask(base, "runs", lambda seen: not seen["problems"])
