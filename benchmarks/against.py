"""CPU of reading a trace and of its pages, in this tree and in another one: ``python -m benchmarks.against TREE``.

TREE is a checkout of this project (``git worktree add --detach TREE COMMIT``). Both run in turn with this environment's
packages, each run a process with an empty cache that reads in itself; imports are not counted. What is printed last of a
trace is the median of the ratios of the pairs: differences of a few per cent are below the noise of single runs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import corpus

ONE_RUN = """
import sys, time
from tb_plugin.analysis.base import Params
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import open_store
begun = time.process_time()
workspace = Workspace(open_catalog([("", sys.argv[1])]), InlineWorkers(), open_store())
workspace.catalog.scan()
place = Place(*next(iter(workspace.catalog.entries())).key)
workspace.load(place)
for view in ("overview", "timeline", "operators", "kernels", "modules", "memory"):
    assert isinstance(workspace.view(place, view, Params()), bytes)
print(time.process_time() - begun)
"""


def cpu_seconds(tree: Path, trace: Path) -> float:
    """Returns user and system seconds from the files of a log directory to the payloads of the pages."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"PYTHONPATH": str(tree), "TORCH_TRACE_CACHE": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", ONE_RUN, str(trace)]
        return float(subprocess.check_output(command, cwd=tree, env=environment, text=True))


def main() -> int:
    """Prints each pair and the median ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path)
    parser.add_argument("--source", choices=corpus.available(), nargs="+", default=["v100", "h100"])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "torch-trace-bench")
    options = parser.parse_args()
    trees = (options.tree.resolve(), Path(__file__).resolve().parents[1])
    for source in options.source:
        trace = corpus.made(options.folder, options.events, source)
        ratios = []
        for pair in range(options.pairs + 1):
            turn = trees if pair % 2 else trees[::-1]
            took = {tree: cpu_seconds(tree, trace) for tree in turn}
            if pair:  # the first one writes the bytecode
                ratios.append(took[trees[1]] / took[trees[0]])
                print(f"{source}: {took[trees[0]]:.2f} s, here {took[trees[1]]:.2f} s, {ratios[-1]:.3f}", flush=True)
        print(f"{source}, {options.events:,} events: median {statistics.median(ratios):.3f} of {options.pairs} pairs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
