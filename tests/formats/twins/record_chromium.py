#!/usr/bin/env python3
"""Records chromium.pftrace.gz: a page in a headless Chromium, as packets. Usage: record_chromium.py FOLDER

Needs a Chromium (or Chrome) in the PATH and nothing else. The page measures some calls of its own.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = """<html><body><script>
const fibonacci = (n) => (n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2));
performance.mark("begin");
for (let i = 0; i < 5; i++) {
  fibonacci(18 + i);
  performance.measure(`fibonacci ${18 + i}`, "begin");
}
</script></body></html>
"""
CATEGORIES = "blink.user_timing,devtools.timeline"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    browser = next(path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name)))
    with tempfile.TemporaryDirectory() as scratch:
        page, trace = Path(scratch) / "page.html", Path(scratch) / "trace"
        page.write_text(PAGE)
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={scratch}/profile"]
        command += [f"--trace-startup={CATEGORIES}", "--trace-startup-format=proto", f"--trace-startup-file={trace}"]
        command += ["--trace-startup-duration=3", "--timeout=4000", "--dump-dom", page.as_uri()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        (folder / "chromium.pftrace.gz").write_bytes(gzip.compress(trace.read_bytes(), 9, mtime=0))


if __name__ == "__main__":
    main()
