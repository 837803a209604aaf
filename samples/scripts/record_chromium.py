#!/usr/bin/env python3
"""Records samples/chromium: Chromium's start and a small page, by its own tracing.

Usage: record_chromium.py FOLDER [CHROMIUM]

What the file says of the machine (its processor, the command line) is taken out.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CATEGORIES = "benchmark,blink.user_timing,v8"
KEPT = ("os-name", "product-version", "user-agent", "v8-version")
PAGE = """<!doctype html><title>sample</title><canvas id=c></canvas><ul id=l></ul><script>
performance.mark('rows begin')
for (let i = 0; i < 50; i++) { const li = document.createElement('li'); li.textContent = 'row ' + i; l.append(li) }
performance.mark('rows end'); performance.measure('rows', 'rows begin', 'rows end')
requestAnimationFrame(function draw(t) { c.getContext('2d').fillRect(t % 100, 0, 5, 50)
  if (t < 150) requestAnimationFrame(draw) })
setTimeout(() => JSON.parse(JSON.stringify([...Array(5000).keys()])), 30)
</script>"""


def main(folder: Path, chromium: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        page, trace = Path(scratch) / "page.html", Path(scratch) / "trace.json"
        page.write_text(PAGE)
        command = [
            *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(f"--user-data-dir={scratch}/profile", f"--trace-startup={CATEGORIES}", "--trace-startup-format=json"),
            *(f"--trace-startup-file={trace}", "--trace-startup-duration=1", "--timeout=2500"),
            *(f"--screenshot={scratch}/page.png", page.as_uri()),
        ]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=60)
        text = trace.read_text().replace(scratch, "/tmp/sample")
    recorded = json.loads(text)
    recorded["metadata"] = {key: value for key, value in recorded["metadata"].items() if key in KEPT}
    run = folder / "chromium"
    run.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(json.dumps(recorded, separators=(",", ":")).encode(), 9, mtime=0)
    (run / "startup_trace.json.gz").write_bytes(packed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "chromium")
