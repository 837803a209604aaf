#!/usr/bin/env python3
"""Records samples/clang: what clang did to compile a small file (``-ftime-trace``). Usage: record_clang.py FOLDER"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """#include <algorithm>
#include <map>
#include <string>
#include <vector>
int main() {
  std::map<std::string, std::vector<int>> rows;
  rows["a"] = {3, 1, 2};
  std::sort(rows["a"].begin(), rows["a"].end());
  return rows["a"][0];
}
"""


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "rows.cpp").write_text(PROGRAM)
        command = ["clang++", "-std=c++17", "-O1", "-ftime-trace", "-ftime-trace-granularity=200", "-c", "rows.cpp"]
        subprocess.run(command, check=True, cwd=scratch)
        run = folder / "clang"
        run.mkdir(parents=True, exist_ok=True)
        text = (Path(scratch) / "rows.json").read_bytes()
        (run / "rows.json.gz").write_bytes(gzip.compress(text, 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
