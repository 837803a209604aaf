"""Writes the expected answers anew (``python -m tests.golden``, ``make golden``); read the diff before a commit.

Each <sample>.json holds, by view, all facts but zeros and nulls, and the first rows of every table, one row per line.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tb_plugin.analysis.base import Params, rows_of
from tests.samples import BY_NAME, OURS, made

FOLDER = Path(__file__).resolve().parent
UNTOLD = {"chromium/startup_trace.json.gz", "clang/rows.json.gz", "jax_cpu/perfetto_trace.json.gz"}
"""Traces of further tools: the contracts hold for them; what they should answer says tests/views/test_other_tools.py."""
TOLD = [sample for sample in OURS if sample.name not in UNTOLD]
ROWS = 8
LONGEST = 160
"""Characters of a text that are kept: names of kernels and stacks are long and their heads tell them apart."""


def stem_of(name: str) -> str:
    """``resnet_cpu/worker0.1795.pt.trace.json.gz`` -> ``resnet_cpu.worker0.1795`` (the span keeps two files apart)."""
    name = name.removesuffix("/ASCEND_PROFILER_OUTPUT")
    return name.replace("/", ".").removesuffix(".gz").removesuffix(".json").removesuffix(".pt.trace")


@cache
def golden(name: str) -> dict[str, Any]:
    """View -> its expected answer, as it is committed; nothing for a sample without one."""
    path = path_of(name)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def path_of(name: str) -> Path:
    return FOLDER / f"{stem_of(name)}.json"


def expected(name: str) -> str:
    """The text of the file of a sample."""
    views = {analysis.id: _text(analysis.part(made(name), Params())) for analysis in BY_NAME[name].analyses}
    return "{\n" + ",\n".join(f'"{view}": {text}' for view, text in views.items()) + "\n}\n"


def _text(part: Any) -> str:
    facts = [
        f"    {json.dumps(key)}: {json.dumps(_short(value))}" for key, value in sorted(part.facts.items()) if value
    ]
    tables = []
    for frame in part.frames.values():
        keys = [column.metric.key for column in frame.columns]
        first = rows_of(frame.data.slice(0, ROWS), keys)
        lines = [json.dumps([_short(row[key]) for key in keys], ensure_ascii=False) for row in first]
        body = "".join(f",\n      {line}" for line in lines)
        tables.append(
            f'    {json.dumps(frame.name)}: {{\n      "rows": {frame.data.num_rows},\n'
            f'      "first": [\n      {json.dumps(keys)}{body}\n      ]\n    }}'
        )
    payloads = [
        f"    {json.dumps(name)}: {json.dumps(payload.__struct_config__.tag)}"
        for name, payload in part.payloads.items()
    ]
    sections = {"facts": facts, "tables": tables, "payloads": payloads}
    blocks = [
        f'  "{title}": {{\n' + ",\n".join(lines) + "\n  }" if lines else f'  "{title}": {{}}'
        for title, lines in sections.items()
    ]
    return "{\n" + ",\n".join(blocks) + "\n}"


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.12g}")  # sums of floats may differ in the last digits between machines
    if isinstance(value, str) and len(value) > LONGEST:
        return value[:LONGEST] + "..."
    return value


def main() -> None:
    for old in FOLDER.glob("*.json"):
        old.unlink()
    for sample in TOLD:
        path_of(sample.name).write_text(expected(sample.name), encoding="utf-8")
    print(f"{len(TOLD)} files under {FOLDER}")


if __name__ == "__main__":
    main()
