"""Texts of the product in plain English: short sentences, in the words of the glossary."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.metrics import ALL

MAX_WORDS = 20
STARTS = re.compile(r"(Of|What|Where|Whom|So many|So much|Its?|How|By how much|Whether|Why)\b")
BANNED = re.compile(
    r"\b(mend\w*|nobody|somebody|meanwhile|so many|as far as|of it|nothing hides|hidden|in sight|worth a word|outermost"
    r"|starved|stands?|stood|lies? (?:in|under|at)|tells?|told|whom?|of each step|in each step|a mean over the steps"
    r"|beg[iau]ns?|beginning|finish\w*|passed over|left out|at hand|held|holds|let go|nothing to do|states?d|chosen"
    r"|whole trace|behind it|kept|keeps?|beside|a step)\b",
    re.IGNORECASE,
)
MAX_TITLE = 6
"""Words of a title, which heads a column."""

LITERAL_STARTS = re.compile(r"(Of|What|Where|Whom|So many|So much) ")
LITERAL_BANNED = re.compile(
    r"\b(mend\w*|nobody|somebody|meanwhile|so many|as far as|nothing hides|in sight|worth a word|outermost stack|starved"
    r"|stands? (?:at|for|in|on|under|beneath|behind|out|there)|lies? under|tells?|told|whom|a mean over the steps"
    r"|of each step|in each step|beg[ai]ns?|begun|passed over|left out|at hand|held up|let go|goes? on|has nothing to do"
    r"|it is said|stated)\b",
    re.IGNORECASE,
)
PACKAGE = Path(__file__).resolve().parents[1] / "tb_plugin"
BUNDLED = PACKAGE.parent / "torch_trace_megengine"
MAX_DOCSTRING_WORDS = 12
BANNED_NAMES = frozenset(
    re.findall(
        r"\w+",
        "about alone apart asked away beside found held here joined kept known made met named need only said seen several "
        "shown stated team there together told whole",
    )
)
ALLOWED_NAMES = {
    "NotFoundError": "the usual name of the error",
    "Loading.about": "a key of HTTP answers",
    "Notices.about": "a key of HTTP answers",
    "CaptureInfo.beside": "a key of HTTP answers",
    "ViewInfo.whole": "a key of HTTP answers",
}


@functools.cache
def modules() -> dict[str, ast.Module]:
    """The modules of the package by path."""
    return {
        path.relative_to(PACKAGE if PACKAGE in path.parents else BUNDLED.parent).as_posix(): ast.parse(
            path.read_text("utf-8")
        )
        for path in [*PACKAGE.rglob("*.py"), *BUNDLED.rglob("*.py")]
    }


def sentences(text: str) -> Iterator[str]:
    """Sentences of a definition, without the values that some of them explain (``bound: ...``)."""
    for part in re.split(r"(?<=[.!?;])\s+", text.strip()):
        yield re.sub(r"^[a-z][\w ,]*: ", "", part)


def faults(text: str) -> list[str]:
    """Sentences that break a rule, each with the rule."""
    found = []
    for sentence in sentences(text):
        if len(sentence.split()) > MAX_WORDS:
            found.append(f"{len(sentence.split())} words: {sentence}")
        if STARTS.match(sentence):
            found.append(f"start: {sentence}")
        if word := BANNED.search(sentence):
            found.append(f"{word[0]!r}: {sentence}")
    return found


def test_definitions_are_plain() -> None:
    assert {metric.key: found for metric in ALL.values() if (found := faults(metric.definition))} == {}
    assert [metric.key for metric in ALL.values() if not metric.definition.endswith(".")] == []


def test_titles_are_short() -> None:
    assert [metric.title for metric in ALL.values() if len(metric.title.split()) > MAX_TITLE] == []
    assert {metric.key: metric.title for metric in ALL.values() if STARTS.match(metric.title)} == {}


def test_definitions_are_formulas() -> None:
    """Eight words on average: exceptions belong in docs/concepts."""
    words = [len(metric.definition.split()) for metric in ALL.values()]
    assert sum(words) / len(words) < 8


def test_the_rules_find_what_they_are_about() -> None:
    assert faults("Kernel time divided by step time.") == []
    assert faults("Of the operator what it launched.")[0].startswith("start")
    assert faults("Time in which nobody waits.")[0].startswith("'nobody'")
    assert faults("Time " + "of kernels " * 10 + "in a range.")[0].startswith("24 words")


def public_names(body: list[ast.stmt], owner: str = "") -> Iterator[str]:
    """Names of classes, functions and fields without a leading underscore."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield owner + node.name
            yield from public_names(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield owner + node.name
        elif owner and isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield owner + node.target.id


def words_of(name: str) -> set[str]:
    """Words of the last part of a name, in lower case."""
    last = name.rpartition(".")[2]
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", last)}


def literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each literal that is no docstring; ``X`` stands for inserted values."""
    docs, parts = set(), set()
    for node in ast.walk(tree):
        for child in getattr(node, "body", None) or [] if not isinstance(node, (ast.Lambda, ast.IfExp)) else []:
            if isinstance(child, ast.Expr):
                docs.add(id(child.value))
        if isinstance(node, ast.JoinedStr):
            parts |= {id(value) for value in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (docs | parts):
            yield node.lineno, node.value


CODE = re.compile(r"`[^`]*`(?: \([^()]*\))?,?(?: and(?= `))?")
"""A name in a list of parameters or tables, with its explanation."""
ARTICLES = re.compile(r"\b(the|a|an|of|is|are|to|in|and|or)\b", re.IGNORECASE)
NOT_PROSE = re.compile(r"import |\\|SELECT |^select |^\s*[-(<{]|_\w+ \w*_")


def test_public_names_are_plain() -> None:
    names = {(path, name) for path, tree in modules().items() for name in public_names(tree.body)}
    files = {(path, Path(path).stem) for path in modules()}
    vague = {
        (path, name) for path, name in names | files if words_of(name) & BANNED_NAMES and name not in ALLOWED_NAMES
    }
    assert vague == set()
    assert {name for name in ALLOWED_NAMES if name not in {each for _, each in names}} == set()


def test_module_docstrings_are_short() -> None:
    first = {path: (ast.get_docstring(tree) or "").split("\n\n")[0] for path, tree in modules().items()}
    assert {path: text for path, text in first.items() if len(text.split()) > MAX_DOCSTRING_WORDS or not text} == {}


def test_texts_are_plain() -> None:
    """Literals with at least four words: findings, notices, errors, titles, descriptions and terminal output."""
    bad = {}
    for path, tree in modules().items():
        for line, text in literals(tree):
            plain = CODE.sub("", text.strip())
            if len(plain.split()) < 4 or NOT_PROSE.search(plain) or not ARTICLES.search(plain):
                continue
            for sentence in re.split(r"(?<=[.!?:;])\s+", plain):
                if (
                    len(sentence.split()) > MAX_WORDS
                    or LITERAL_STARTS.match(sentence)
                    or LITERAL_BANNED.search(sentence)
                ):
                    bad[f"{path}:{line}"] = sentence
    assert bad == {}


VERB = re.compile(r"[A-Z][a-z]+s\b")
"""Third person: Returns, Prints, Lays, Raises."""


def docstrings() -> list[tuple[str, str, bool]]:
    """Where, text, and whether it is a function's: of all that is public, and of attributes of public classes."""

    def walk(body: list[ast.stmt], within: str) -> Iterator[tuple[str, str, bool]]:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                if text := ast.get_docstring(node):
                    yield f"{within}.{node.name}", text, isinstance(node, ast.FunctionDef)
                if isinstance(node, ast.ClassDef):
                    yield from walk(node.body, f"{within}.{node.name}")
            elif (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield f"{within}, line {node.lineno}", node.value.value.strip(), False

    return [each for path, tree in modules().items() for each in walk(tree.body[1:], path)]


def test_functions_open_with_a_verb() -> None:
    found = [(where, text[:60]) for where, text, of_function in docstrings() if of_function]
    assert len(found) > 300
    assert [(where, text) for where, text in found if not VERB.match(text)] == []


def test_nothing_opens_without_a_subject() -> None:
    odd = re.compile(r"Of (the|a|an|one|each|these|those|all)\b|As of\b")
    assert [(where, text[:60]) for where, text, _ in docstrings() if odd.match(text)] == []
