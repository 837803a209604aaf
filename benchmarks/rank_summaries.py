"""How large a rank summary is for each thousand calls of collectives: invented jobs of growing length, one rank of each.

usage: python -m benchmarks.rank_summaries [--steps 4 40 400]
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tb_plugin.registry import readers
from tb_plugin.service.catalog import ProfileCatalog
from tb_plugin.service.discovery.scan import Scanner
from tb_plugin.service.profile_files import Root
from tb_plugin.service.summaries.compute import job_of, summarize_rank
from tb_plugin.service.summaries.format import Wanted, check_values, decode_unchecked, read_header
from tb_plugin.storage.files import Folder

GENERATOR = Path(__file__).parent.parent / "samples"


def main() -> None:
    """Prints a table for docs/summaries.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=[4, 40, 400])
    generator = _generator()
    print(
        "| calls | trace (gzip) | summary | unpacked | summary, each 1,000 calls | CPU to compute | CPU to take apart |"
    )
    print("|---|---|---|---|---|---|---|")
    for steps in parser.parse_args().steps:
        with tempfile.TemporaryDirectory() as folder:
            generator.write(generator.Job(ranks=8, steps=steps, layers=12, tp=2), Path(folder) / "job", [0])
            catalog = ProfileCatalog(Scanner([Root(Folder(folder))], readers()))
            catalog.scan()
            found = catalog.entries()[0].files
            begun = time.process_time()
            outcome = summarize_rank(job_of(found, None, None))
            computed = time.process_time() - begun
            about = read_header(outcome.body)
            begun = time.process_time()
            part, _ = decode_unchecked(outcome.body, Wanted(None, about.settings))
            check_values([part])
            taken = time.process_time() - begun
            calls = part.frames["collectives"].data.num_rows
            sizes = (found.size_bytes, outcome.size_bytes, about.part_bytes, 1000 * outcome.size_bytes / calls)
            shown = " | ".join(f"{size / 1000:,.1f} kB" for size in sizes)
            print(f"| {calls:,} | {shown} | {computed:.2f} s | {1000 * taken:.1f} ms |")


def _generator() -> Any:
    """The generator of samples/, which is data and no package."""
    sys.path.append(str(GENERATOR))
    return importlib.import_module("jobs")


if __name__ == "__main__":
    main()
