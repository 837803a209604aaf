"""What reading PyTorch's packets (``.pftrace``) costs beside the JSON of the same recording, in turn in one run.

    python -m benchmarks.packets [--events 1_000_000] [--pairs 3] [--folder FOLDER]

Two sources, each repeated in time: the recorded host with Python stacks of which the tests have both, and the synthetic
GPU. The JSON is compact, as Cuspy writes it, and the packets are encoded as its encoder does (``tests/pftraces.py``);
both are compressed at level 1. CPU time and peak memory are those of whole processes, from the file to the assembled table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import Cost, measure

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    "host with stacks": "tests/formats/twins/cuspy_cpu.pt.trace.json.gz",
    "synthetic GPU": "samples/synthetic_gpu/worker0.*.pt.trace.json.gz",
}
_PACKETS, _JSON = "{}.pftrace.gz", "{}.pt.trace.json.gz"


def repeated(document: dict[str, Any], events: int) -> dict[str, Any]:
    """The recording again and again, until it has about so many events."""
    names = [event for event in document["traceEvents"] if event["ph"] == "M"]
    timed = [event for event in document["traceEvents"] if event["ph"] != "M"]
    starts = [float(event["ts"]) for event in timed]
    length = max(starts) - min(starts) + 1000
    copies = max(1, round(events / len(timed)))
    again = [{**e, "ts": round(t + i * length, 3)} for i in range(copies) for e, t in zip(timed, starts, strict=True)]
    return {**document, "traceEvents": names + again}


def made(folder: Path, name: str, source: Path, events: int) -> tuple[Path, Path]:
    """The files of both formats."""
    from tests.pftraces import packets

    text, binary = (folder / form.format(f"{name.replace(' ', '_')}_{events}") for form in (_JSON, _PACKETS))
    if not binary.exists():
        document = repeated(json.loads(gzip.decompress(source.read_bytes())), events)
        with gzip.open(text, "wt", 1) as out:
            json.dump(document, out, separators=(",", ":"))
        with gzip.open(binary, "wb", 1) as raw:
            raw.writelines(packets(document))
    return text, binary


def read(path: Path) -> None:
    """Reads a file as a worker process does."""
    from tb_plugin import registry
    from tb_plugin.formats.base import ReadOptions, no_progress
    from tb_plugin.model.trace.assemble import assemble
    from tb_plugin.storage.files import FileSource

    reader = next(r for r in registry.readers() if r.id == ("perfetto" if ".pftrace" in path.name else "kineto"))
    table = assemble(reader.read(FileSource({path.name: str(path)}), ReadOptions(), no_progress))
    print(len(table))


def cost(path: Path) -> Cost:
    """What reading it takes."""
    return measure([sys.executable, "-m", "benchmarks.packets", "--read", str(path)], {}, 600, 16e9)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "torch-trace-packets")
    parser.add_argument("--read", type=Path)
    arguments = parser.parse_args()
    if arguments.read is not None:
        read(arguments.read)
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print("| trace | JSON CPU s | packets CPU s | ratio (range) | JSON peak MB | packets peak MB | rows |")
    print("|---|---|---|---|---|---|---|")
    for name, source in SOURCES.items():
        text, binary = made(arguments.folder, name, next(ROOT.glob(source)), arguments.events)
        pairs = [(cost(text), cost(binary)) for _ in range(arguments.pairs)]
        ratios = [packets.cpu_s / plain.cpu_s for plain, packets in pairs]
        seconds = [statistics.median(side.cpu_s for side in sides) for sides in zip(*pairs, strict=True)]
        peaks = [max(side.largest_bytes for side in sides) / 1e6 for sides in zip(*pairs, strict=True)]
        rows = " and ".join(side.output.strip() for side in pairs[0])
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(
            f"| {name} | {seconds[0]:.2f} | {seconds[1]:.2f} | {spread} | {peaks[0]:.0f} | {peaks[1]:.0f} | {rows} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
