"""What opening an allocator snapshot costs beside PyTorch's own page, side by side in one run.

    python -m benchmarks.snapshot_cost [--events 10_000_000] [--torch PYTHON] [--rounds 1]

Ours reads the pickle, derives the lives of blocks, writes the column file and answers the first page; PyTorch's
(``python -m torch.cuda._memory_viz trace_plot``) unpickles, pickles again and writes a page of base64, which a browser
then has to read. Peak memory and CPU time are those of whole processes, as the kernel counts them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.snapshots import write

ROOT = Path(__file__).resolve().parents[1]


def ours(path: str) -> None:
    """Opens a snapshot as a worker process does, and answers its first page; says when each stage was done."""
    begin = time.perf_counter()
    from tb_plugin.analysis.base import Params
    from tb_plugin.formats.base import ReadOptions, no_progress
    from tb_plugin.formats.memory_snapshot.reader import MemorySnapshotReader
    from tb_plugin.model.snapshot.assemble import assemble
    from tb_plugin.model_kinds.rows import SNAPSHOT
    from tb_plugin.payloads.export import to_json
    from tb_plugin.storage.files import FileSource
    from tb_plugin.views.allocations.view import Allocations

    stages = {}
    raw = MemorySnapshotReader().read(FileSource({"s.pickle": path}), ReadOptions(), no_progress)
    stages["read"] = time.perf_counter() - begin
    made = assemble(raw)
    del raw
    stages["assembled"] = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder:
        SNAPSHOT.write(made, f"{folder}/columns")
        del made
        stages["written"] = time.perf_counter() - begin
        view, params = Allocations(), Params()
        text = to_json(view.answer([view.part(SNAPSHOT.read(f"{folder}/columns"), params)], params))
    stages["first page"] = time.perf_counter() - begin
    print(json.dumps({"stages_s": {key: round(value, 2) for key, value in stages.items()}, "page_bytes": len(text)}))


def cost(command: list[str]) -> dict[str, float | str]:
    """Returns seconds, CPU seconds and peak memory of a process."""
    begin = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return {
        "exit": process.returncode,
        "wall_s": round(time.perf_counter() - begin, 1),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / 1000),
        "said": said.strip()[-300:],
    }


def main() -> None:
    """Measures both and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--torch", default="", help="a Python that has PyTorch; without one only ours is measured")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--ours", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.ours:
        ours(asked.ours)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        count = write(path, asked.events, depth=20)
        print(f"{count:,} events, {path.stat().st_size / 1e6:,.0f} MB")
        commands = {"ours": [sys.executable, "-m", "benchmarks.snapshot_cost", "--ours", str(path)]}
        if asked.torch:
            page = str(Path(folder) / "page.html")
            commands["torch"] = [asked.torch, "-m", "torch.cuda._memory_viz", "trace_plot", str(path), "-o", page]
        for _ in range(asked.rounds):
            found = {name: cost(command) for name, command in commands.items()}
            for name, each in found.items():
                print(name, json.dumps(each))
            if "torch" in found:
                theirs, mine = found["torch"], found["ours"]
                print(f"memory: {float(theirs['peak_mb']) / float(mine['peak_mb']):.2f} times less")
                print(f"CPU: {float(mine['cpu_s']) / float(theirs['cpu_s']):.2f} of theirs")


if __name__ == "__main__":
    main()
