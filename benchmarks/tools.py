"""What is measured: a table of commands, and the environments of those that are not ours."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
VENVS = ROOT / ".venv-bench"


@dataclass(frozen=True)
class Tool:
    """A script of this folder and its first argument. ``packages`` go into an environment of their own; none: ours."""

    title: str
    script: str
    what: str
    packages: tuple[str, ...] = ()
    venv: str = ""
    cached: bool = False
    """It finds the profile in the cache."""


_JSON = ("orjson==3.13.0", "isal==1.9.1")
_SIMDJSON = ("pysimdjson==7.0.2", "isal==1.9.1")
OURS = "ours"
CACHED = "cached"
TOOLS = {
    OURS: Tool("Torch Trace, cold: all default payloads", "ours.py", "pages"),
    CACHED: Tool("Torch Trace, from the cache: Overview", "ours.py", "overview", cached=True),
    "orjson": Tool("gunzip + orjson.loads", "peers.py", "orjson", _JSON, "orjson"),
    "simdjson": Tool("gunzip + simdjson.loads", "peers.py", "simdjson", _SIMDJSON, "simdjson"),
    "simdjson_parse": Tool("gunzip + simdjson, parse only", "peers.py", "simdjson_parse", _SIMDJSON, "simdjson"),
    "torch_tb_profiler": Tool(
        "torch-tb-profiler: all default payloads but Trace",
        "peers.py",
        "torch_tb_profiler",
        ("torch-tb-profiler==0.4.3", "setuptools<81"),
        "torch_tb_profiler",
    ),
    "hta": Tool("HTA: load only", "peers.py", "hta", ("HolisticTraceAnalysis==0.5.0",), "hta"),
}
PEERS = tuple(name for name, tool in TOOLS.items() if tool.packages)
NOT_RUN = {"TraceLens (AMD)": "not to be had from a package index: PyPI's tracelens is something else"}


def command_of(tool: Tool, run: Path, cache: Path) -> tuple[list[str], dict[str, str]]:
    """The command and its environment variables for the traces of a folder."""
    if tool.packages:
        command = [str(_python_of(tool)), str(HERE / tool.script), tool.what, str(run)]
        return command, {"PYTHONPATH": "", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(HERE / tool.script), str(run), tool.what]
    cached = {"TORCH_TRACE_CACHE": str(cache) if tool.cached else ""}
    return command, {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **cached}


def _python_of(tool: Tool) -> Path:
    """The interpreter of a peer's environment, which is made when it is first needed."""
    folder = VENVS / tool.venv
    python, done, wanted = folder / "bin" / "python", folder / "installed", " ".join(tool.packages)
    if not done.exists() or done.read_text() != wanted:
        print(f"Installing {wanted} into {folder} ...", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, *tool.packages], check=True)
        done.write_text(wanted)
    return python
