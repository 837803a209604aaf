"""CPU time of the command's start: ``--help`` and a report, beside what Python and numpy alone take.

``python -m benchmarks.startup [--runs 5]``. All commands run in turn; the figures are medians of user and system time, with
child processes. Bytecode is written to a folder of this run's own first, as an installed package has it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SAMPLE = Path(__file__).resolve().parents[1] / "samples" / "no_steps_cpu"
COMMAND = ("-m", "tb_plugin")
COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "--help": (*COMMAND, "--help"),
    "python -c 'import json, numpy'": ("-c", "import json, numpy"),
    "report --format json": (*COMMAND, "report", str(SAMPLE), "--format", "json"),
    "report": (*COMMAND, "report", str(SAMPLE)),
}
LIMITS = {
    "--help": ("python -c pass", 4.0),
    "report --format json": ("python -c 'import json, numpy'", 3.5),
    "report": ("python -c 'import json, numpy'", 3.5),
}
"""How many times what another command takes."""


def cpu_seconds(arguments: tuple[str, ...], folder: Path) -> float:
    """Returns user and system seconds of one run of Python, with an empty cache."""
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"TORCH_TRACE_CACHE": str(cache), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(runs: int) -> dict[str, float]:
    """Returns the median CPU seconds of each command."""
    with tempfile.TemporaryDirectory() as name:
        seconds: dict[str, list[float]] = {command: [] for command in COMMANDS}
        for turn in range(runs + 1):
            for command, arguments in COMMANDS.items():
                took = cpu_seconds(arguments, Path(name))
                if turn:  # the first one writes the bytecode
                    seconds[command].append(took)
    return {command: statistics.median(values) for command, values in seconds.items()}


def main() -> int:
    """Prints a table; returns 1 where a command takes longer than its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    medians = measure(parser.parse_args().runs)
    print("| command | CPU ms | times | at most |\n| --- | ---: | ---: | ---: |")
    too_long = False
    for command, seconds in medians.items():
        other, limit = LIMITS.get(command, (command, 1.0))
        times = seconds / medians[other]
        too_long |= times > limit
        bound = f"{times:.2f} | {limit}" if command in LIMITS else " | "
        print(f"| `{command}` | {seconds * 1000:.0f} | {bound} |")
    return int(too_long)


if __name__ == "__main__":
    sys.exit(main())
