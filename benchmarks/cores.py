"""Reading in one and two processes: wall time, CPU time and memory of the process tree (Linux).

python -m benchmarks.cores FILE [FILE ...] [--runs 3]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
from pathlib import Path
from statistics import median

from benchmarks.measure import tree

_READ = """
import resource, sys, time
from pathlib import Path
from tb_plugin.formats.base import ReadOptions, no_progress
from tb_plugin.formats.kineto.reader import KinetoReader
from tb_plugin.storage.files import FileSource

def cpu_s():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return [each.ru_utime + each.ru_stime for each in used]

path, before, start = Path(sys.argv[1]), cpu_s(), time.monotonic()
KinetoReader().read(FileSource({path.name: str(path)}), ReadOptions(decoders=int(sys.argv[2])), no_progress)
wall_s = time.monotonic() - start
print(wall_s, *[after - first for after, first in zip(cpu_s(), before)])
"""


def measure(path: Path, processes: int) -> tuple[float, float, float, float]:
    """Returns wall seconds, CPU seconds of the reader and of its decoders, and the peak memory of all in bytes."""
    command = [sys.executable, "-c", _READ, str(path), str(processes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        peak_bytes, ended = 0, threading.Event()

        def watch() -> None:
            nonlocal peak_bytes
            while not ended.wait(0.03):
                peak_bytes = max(peak_bytes, sum(map(proportional_bytes, tree(process.pid))))

        thread = threading.Thread(target=watch)
        thread.start()
        output, _ = process.communicate()
        ended.set()
        thread.join()
    wall_s, own_s, decoders_s = map(float, output.split())
    return wall_s, own_s, decoders_s, peak_bytes


def proportional_bytes(pid: int) -> int:
    """Returns the memory of a process. Pages that n processes share count 1/n."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print("| trace | processes | wall s | CPU s | in the reader | MB |\n|---|---:|---:|---:|---:|---:|")
    for path in options.files:
        runs = [(measure(path, 1), measure(path, 2)) for _ in range(options.runs)]  # interleaved
        for at, count in enumerate((1, 2)):
            wall_s, own_s, decoders_s, size = (median(run[at][i] for run in runs) for i in range(4))
            cells = f"{wall_s:.2f} | {own_s + decoders_s:.2f} | {own_s:.2f} | {size / 1e6:.0f}"
            print(f"| {path.parent.name} | {count} | {cells} |")
        # The reader inflates, cuts and merges; the decoders share the rest.
        model = ", ".join(f"{n}: {max(own_s, own_s / n + decoders_s / n):.2f} s" for n in (8, 16))
        print(f"\nLower bound of the wall time by cores: {model}\n")


if __name__ == "__main__":
    main()
