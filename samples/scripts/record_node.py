#!/usr/bin/env python3
"""Records samples/node: a small program by Node's own tracing, under the name that Node gives the file.

Usage: record_node.py FOLDER
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
const { performance } = require('perf_hooks')
const fs = require('fs')
performance.mark('begin')
for (let i = 0; i < 3; i++) JSON.parse(JSON.stringify(Array.from({ length: 2000 }, (_, k) => ({ k }))))
performance.mark('end')
performance.measure('work', 'begin', 'end')
fs.readFile(__filename, () => setTimeout(() => {}, 5))
"""


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "program.js").write_text(PROGRAM)
        command = ["node", "--trace-event-categories", "node.perf,node.async_hooks,v8", "program.js"]
        subprocess.run(command, check=True, cwd=scratch)
        run = folder / "node"
        run.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(scratch) / "node_trace.1.log", run / "node_trace.1.log")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
