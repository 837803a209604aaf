"""The text of the Dockerfile: copied files exist, commands are ours, and the user is not root."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
IGNORE = (ROOT / ".dockerignore").read_text(encoding="utf-8")
Stage = list[tuple[str, str]]
"""Pairs of an instruction and its arguments."""


def stages() -> dict[str, Stage]:
    """The stages by name; the last one is called "last"."""
    joined = re.sub(r"\\\n\s*", "", TEXT)
    found: dict[str, Stage] = {}
    stage: Stage = []
    for line in joined.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        assert word in ("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "VOLUME", "CMD"), line
        if word == "FROM":
            match = re.fullmatch(r"(?:node|python):[\d.]+-slim(?: AS (\w+))?", rest)
            assert match is not None, line
            stage = found.setdefault(match[1] or "last", [])
        stage.append((word, rest.strip()))
    return found


def is_sent(path: str) -> bool:
    """Whether .dockerignore leaves a file or folder in: the last pattern that matches it or a folder around it wins."""
    sent = True
    for line in IGNORE.splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        around = [path, *(str(one) for one in Path(path).parents if str(one) != ".")]
        if any(fnmatch(one, pattern) or fnmatch(f"/{one}", pattern.replace("**", "*")) for one in around):
            sent = line.startswith("!")
    return sent


def test_what_is_copied_exists_and_is_sent() -> None:
    found = stages()
    copied: set[str] = set()
    for name, stage in found.items():
        for word, rest in stage:
            if word != "COPY":
                continue
            *sources, target = shlex.split(rest)
            if sources[0].startswith("--from="):
                origin = sources[0].removeprefix("--from=")
                assert list(found).index(origin) < list(found).index(name), rest
                continue
            assert target == "./" or len(sources) == 1, rest
            for source in sources:
                assert (ROOT / source).exists() and is_sent(source), source
            copied |= set(sources)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = {include.removesuffix("*") for include in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages | {project["project"]["readme"], "frontend"} <= copied


def test_builds_and_private_files_are_not_sent() -> None:
    for path in (
        ".git",
        ".venv",
        "samples",
        "tests",
        "frontend/node_modules",
        "tb_plugin/static",
        "tb_plugin/__pycache__",
    ):
        assert not is_sent(path), path
    assert is_sent("tb_plugin/cli/view.py") and is_sent("frontend/src/main.tsx")


def test_what_it_runs_is_ours() -> None:
    found = stages()
    scripts = json.loads((ROOT / "frontend" / "package.json").read_text())["scripts"]
    (built,) = re.findall(r"npm run (\S+)", TEXT)
    assert built in scripts and "../tb_plugin/static" in (ROOT / "frontend" / "vite.config.ts").read_text()
    assert ("COPY", "--from=page /src/tb_plugin/static ./tb_plugin/static") in found["package"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", TEXT)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (command,) = [json.loads(rest) for word, rest in found["last"] if word == "CMD"]
    assert command[0] in (*project["scripts"], "tensorboard")
    (volume,) = [rest for word, rest in found["last"] if word == "VOLUME"]
    assert volume in command
    (port,) = [rest for word, rest in found["last"] if word == "EXPOSE"]
    assert port in command


def test_the_user_is_not_root() -> None:
    last = stages()["last"]
    words = [word for word, _ in last]
    (user,) = [rest for word, rest in last if word == "USER"]
    assert user not in ("root", "0") and f" {user}" in dict(last)["RUN"]
    assert "RUN" not in words[words.index("USER") :] and "COPY" not in words[words.index("USER") :]


def test_the_python_is_one_that_is_tested() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    for version in re.findall(r"FROM python:([\d.]+)-slim", TEXT):
        assert f"Programming Language :: Python :: {version}" in classifiers
