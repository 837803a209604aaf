"""Mutants: one small change at a time in a copy of the package, and whether its own tests notice (``make mutants``).

The sites are all comparisons, operators, numbers, boolean words, ``not`` and conditions in functions and constants of
model/, formats/, analysis/, rules/ and views/; a seed draws from them. Each runs the tests of its package in a copy of
the tree: worker processes import the mutated copy too. Results are appended to ``mutants.jsonl`` at once, so an
interrupted run goes on where it stopped; at the end (or with ``--report``) they become a section of docs/testing.md.
Decision 14 says why this is no tool from elsewhere.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- mutants -->", "<!-- end of mutants -->"
TESTS = {
    "model": ("tests/model", "tests/property", "tests/contract", "tests/golden"),
    "formats": ("tests/formats", "tests/contract", "tests/property/test_trace_properties.py"),
    "analysis": ("tests/views", "tests/contract", "tests/golden", "tests/property"),
    "rules": ("tests/rules", "tests/views", "tests/contract", "tests/golden"),
    "views": ("tests/views", "tests/contract", "tests/golden", "tests/property"),
}
"""Packages, and the tests that must notice a change in them, the quickest first."""
FIRST = {
    "model": "tests/model/test_{}.py",
    "formats": "tests/formats/test_kineto_{}.py",
    "analysis": "tests/views/test_{}.py",
    "rules": "tests/rules/test_{}.py",
    "views": "tests/views/test_{}.py",
}
"""Where the tests of one module stand, which are asked ahead of the others."""
COMPARE = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.Mod: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: where, and the text before and after it."""

    path: str
    line: int
    start: int
    end: int
    """Offsets into the file, in bytes."""
    before: str
    after: str

    @property
    def key(self) -> str:
        return f"{self.path}:{self.start}:{self.after}"


@dataclass(frozen=True)
class Result:
    """What became of a mutant: killed, survived, or timeout (which counts as killed)."""

    mutant: Mutant
    outcome: str
    by: str
    seconds: float


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All changes that can be made in a file."""
    source = path.read_bytes()
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    tree = ast.parse(source)
    skipped = {id(node) for top in ast.walk(tree) for node in _left_out(top)}
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, ast.expr):
            continue
        for changed in _changes(node):
            start = lines[node.lineno - 1] + node.col_offset
            end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            before, after = source[start:end].decode(), f"({ast.unparse(changed)})"
            yield Mutant(path.relative_to(ROOT).as_posix(), node.lineno, start, end, before, after)


def _left_out(node: ast.AST) -> Iterator[ast.AST]:
    """What no test could notice, or what would not be Python: annotations, texts in f-strings, patterns of ``match``."""
    parts: list[ast.AST | None] = []
    if isinstance(node, ast.AnnAssign | ast.arg):
        parts.append(node.annotation)
    elif isinstance(node, ast.FunctionDef):
        parts.append(node.returns)
    elif isinstance(node, ast.JoinedStr | ast.pattern) or _is_for_types(node):
        parts.append(node)
    for part in filter(None, parts):
        yield from ast.walk(part)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _changes(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARE:
        yield ast.Compare(node.left, [COMPARE[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BinOp) and type(node.op) in BINARY:
        if not any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right)):
            yield ast.BinOp(node.left, BINARY[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield ast.Constant(node.value * 2 if node.value > 9 else node.value + 1)


def drawn(count: int, seed: int) -> list[Mutant]:
    """The mutants of a seed: modules are drawn by their length, and no line twice."""
    every = [
        mutant
        for package in TESTS
        for path in sorted((ROOT / "tb_plugin" / package).rglob("*.py"))
        for mutant in mutants_of(path)
    ]
    random.Random(seed).shuffle(every)
    chosen: dict[tuple[str, int], Mutant] = {}
    for mutant in every:
        if len(chosen) < count:
            chosen.setdefault((mutant.path, mutant.line), mutant)
    return list(chosen.values())


def tried(mutant: Mutant, tree: Path, seconds: float) -> Result:
    """Runs the tests of the mutant's package in a copy of the tree that holds it."""
    place = tree / mutant.path
    source = place.read_bytes()
    place.write_bytes(source[: mutant.start] + mutant.after.encode() + source[mutant.end :])
    begun = time.monotonic()
    try:
        for tests, depth in stages(mutant, tree):
            outcome, by = _run(tests, depth, tree, seconds)
            if outcome != "survived":
                break
    finally:
        place.write_bytes(source)
    return Result(mutant, outcome, by, round(time.monotonic() - begun, 1))


def stages(mutant: Mutant, tree: Path) -> list[tuple[list[str], str]]:
    """Tests and their depth, the quickest first: those of the module, hand-sized inputs, then all of the package."""
    _, package, *_ = parts = mutant.path.removesuffix(".py").split("/")
    named = [FIRST[package].format(part) for part in (parts[-1], parts[2])]
    first = [name for name in dict.fromkeys(named) if (tree / name).is_file()]
    found: list[tuple[list[str], str]] = [(first, "suite")] if first else []
    return [*found, ([TESTS[package][0]], "quick"), (list(TESTS[package]), "suite")]


def _run(tests: list[str], depth: str, tree: Path, seconds: float) -> tuple[str, str]:
    """Outcome, and the first test that failed."""
    folder = tempfile.mkdtemp(dir=tree.parent)
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "TORCH_TRACE_CACHE": folder, "TEST_DEPTH": depth}
    environment["PYTHONPATH"] = str(tree)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "--basetemp",
        f"{folder}/tmp",
        *tests,
    ]
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "timeout", "took too long"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if process.returncode == 0:
        return "survived", ""
    failed = [line.split(" ")[1] for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "killed", failed[0] if failed else text.strip().splitlines()[-1][:120]


def copied(folder: Path) -> Path:
    """A copy of what the tests need; the corpus beside the repository is linked."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    for name in ("tb_plugin", "torch_trace_megengine", "tests", "samples", "benchmarks"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for name in ("pyproject.toml", "setup.cfg", "README.md", "CHANGELOG.md", "docs"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tree / name)
    shared = ROOT.parent / "shared"
    if shared.exists():
        (folder / "shared").symlink_to(shared.resolve())
    return tree


IMPORTED = (
    "import tb_plugin, tb_plugin.service.workers.interpreter as i; "
    "print(tb_plugin.__file__, *i.import_path(), sep=chr(10))"
)
IN_A_WORKER = "import sys; sys.path[:] = sys.argv[1:]; import tb_plugin; print(tb_plugin.__file__)"


def check(tree: Path) -> None:
    """Ends the program where the tests, or the worker processes that they start, would not run the copy."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    output = subprocess.check_output([sys.executable, "-c", IMPORTED], cwd=tree, env=environment, text=True)
    here, *path = output.splitlines()
    there = subprocess.check_output([sys.executable, "-P", "-c", IN_A_WORKER, *path], cwd=tree, text=True).strip()
    for found in (here, there):
        if not found.startswith(str(tree)):
            sys.exit(f"The tests would run {found} and not the copy.")


def run(
    mutants: list[Mutant], results: dict[str, Result], log: Path, processes: int, minutes: float, limit: float
) -> None:
    """Tries what has no result yet, and appends each result to the log."""
    waiting = [mutant for mutant in mutants if mutant.key not in results]
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for i in range(processes):
            tree = copied(Path(folder) / str(i))
            check(tree)
            trees.put(tree)

        def one(mutant: Mutant) -> Result | None:
            if time.monotonic() > end:
                return None
            tree = trees.get()
            try:
                return tried(mutant, tree, limit)
            finally:
                trees.put(tree)

        with concurrent.futures.ThreadPoolExecutor(processes) as pool, log.open("a", encoding="utf-8") as out:
            for done in concurrent.futures.as_completed([pool.submit(one, mutant) for mutant in waiting]):
                result = done.result()
                if result is None:
                    continue
                results[result.mutant.key] = result
                out.write(json.dumps(asdict(result)) + "\n")
                out.flush()
                where = f"{result.mutant.path}:{result.mutant.line}"
                print(
                    f"[{len(results)}/{len(mutants)}] {result.outcome:8} {result.seconds:6.1f} s  {where}  {result.by}",
                    flush=True,
                )


def kept(log: Path) -> dict[str, Result]:
    """The results of earlier runs."""
    if not log.is_file():
        return {}
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    found = [Result(Mutant(**row["mutant"]), row["outcome"], row["by"], row["seconds"]) for row in rows]
    return {result.mutant.key: result for result in found}


def section(mutants: list[Mutant], results: dict[str, Result], seed: int) -> str:
    """The result as Markdown: counts by package, and every survivor."""
    tried_ones = [results[mutant.key] for mutant in mutants if mutant.key in results]
    lines = [
        f"Seed {seed}: {len(tried_ones)} of {len(mutants)} mutants tried,"
        f" {sum(result.seconds for result in tried_ones) / 60:.0f} minutes of one process.",
        "",
        "| package | tried | killed | survived |",
        "| --- | ---: | ---: | ---: |",
    ]
    for package in TESTS:
        counts = Counter(r.outcome for r in tried_ones if r.mutant.path.split("/")[1] == package)
        lines.append(
            f"| `{package}/` | {counts.total()} | {counts['killed'] + counts['timeout']} | {counts['survived']} |"
        )
    survivors = [result.mutant for result in tried_ones if result.outcome == "survived"]
    if survivors:
        lines += ["", "| survivor | before | after |", "| --- | --- | --- |"]
    for mutant in sorted(survivors, key=lambda mutant: (mutant.path, mutant.line)):
        before, after = (" ".join(text.split()).replace("|", "\\|")[:90] for text in (mutant.before, mutant.after))
        lines.append(f"| `{mutant.path.removeprefix('tb_plugin/')}:{mutant.line}` | `{before}` | `{after}` |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--minutes", type=float, default=45, help="after which no other mutant is begun")
    parser.add_argument("--limit", type=float, default=240, help="seconds for one run of tests")
    parser.add_argument("--log", type=Path, default=ROOT / "mutants.jsonl", help="results so far")
    parser.add_argument("--report", action="store_true", help="only print what is known")
    parser.add_argument("--write", action="store_true", help="put the section into docs/testing.md")
    arguments = parser.parse_args()
    mutants, results = drawn(arguments.count, arguments.seed), kept(arguments.log)
    if not arguments.report:
        run(mutants, results, arguments.log, arguments.processes, arguments.minutes, arguments.limit)
    text = section(mutants, results, arguments.seed)
    print(text)
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        head, _, rest = page.partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
