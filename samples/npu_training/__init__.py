"""Invent profiles of a training on two Ascend NPUs whose right answers are known, for machines without an NPU.

Rank 0 has the first half of a model, rank 1 the second one, and both sum the gradients that they share. What happens is kept
as plain records (`Process`); `WRITERS` turn them into the files of an export, and `truth_document` counts the truth.
Nothing was recorded: the layout follows recordings of other trainings and, for what those do not have, the manuals.

Planted: the cores of rank 1 run at 1200 instead of 1800 MHz during its forward and backward pass in the last step, so that
rank 0 waits for it; a sum of gradients goes over the link in packets of 4096 bytes; three kernels are bound by what they
read from memory (MTE2); casts, changes of layout and a kernel on the AI CPU stand beside the products.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from events import write_truth

from .databases import databases
from .program import play
from .records import CUBE_CORES, OLDER_BYTES, Config, Process
from .sums import merged, times_of, without
from .tables import (
    api_statistic,
    communication,
    communication_matrix,
    data_preprocess,
    folder_of,
    kernel_details,
    l2_cache,
    memory_record,
    metadata,
    npu_module_mem,
    op_statistic,
    operator_details,
    operator_memory,
    settings,
    step_trace_time,
)
from .trace_view import TraceView
from .truth import truth_document, truth_of

__all__ = [
    "CUBE_CORES", "OLDER_BYTES", "Config", "databases", "folder_of", "main", "merged", "play", "texts", "times_of",
    "truth_document", "truth_of", "without", "write",
]  # fmt: skip

TEXTS: dict[str, Callable[[Process], str]] = {
    "trace_view.json": lambda process: TraceView(process).text(),
    "kernel_details.csv": kernel_details,
    "operator_details.csv": operator_details,
    "operator_memory.csv": operator_memory,
    "memory_record.csv": memory_record,
    "npu_module_mem.csv": npu_module_mem,
    "step_trace_time.csv": step_trace_time,
    "op_statistic.csv": op_statistic,
    "api_statistic.csv": api_statistic,
    "communication.json": communication,
    "communication_matrix.json": communication_matrix,
    "l2_cache.csv": l2_cache,
    "data_preprocess.csv": data_preprocess,
}


def texts(process: Process) -> dict[str, bytes]:
    """Returns the files of the text export by their place in the folder of the rank."""
    made = {
        f"profiler_info_{process.rank}.json": json.dumps(settings(process), indent=4),
        "profiler_metadata.json": json.dumps(metadata(process)),
        **{f"ASCEND_PROFILER_OUTPUT/{name}": make(process) for name, make in TEXTS.items()},
    }
    return {name: text.encode() for name, text in made.items()}


WRITERS: dict[str, Callable[[Process], dict[str, bytes]]] = {"text": texts, "db": databases}
"""By export: what makes the files of a rank of its records."""


def write(processes: list[Process], out_dir: Path, exports: Iterable[str] = ("text",)) -> list[Path]:
    """Writes the folders of all ranks."""
    paths = []
    for process in processes:
        for export in exports:
            for name, content in WRITERS[export](process).items():
                paths.append(out_dir / folder_of(process) / name)
                paths[-1].parent.mkdir(parents=True, exist_ok=True)
                paths[-1].write_bytes(content)
    return paths


def main(arguments: list[str] | None = None) -> None:
    """Writes a run, and its truth where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("out_dir", type=Path, help="folder of the run; created")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--export", action="append", choices=sorted(WRITERS), help="repeatable; text without it")
    parser.add_argument("--truth", type=Path, default=None, help="write the truth to this JSON file")
    chosen = parser.parse_args(arguments)
    config = Config(chosen.steps, chosen.seed)
    processes = play(config)
    paths = write(processes, chosen.out_dir, chosen.export or ("text",))
    print(f"{len(paths)} files, {sum(path.stat().st_size for path in paths):,} bytes, in {chosen.out_dir}")
    write_truth(chosen.truth, truth_document(config, chosen.out_dir.name, processes))
