"""What each view answers first, as docs/views.md has it: a sentence, else the row that leads a table.

``python -m tests.browser.answers`` writes into docs/views.md what the pages say now: look at the difference.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.harness import ROOT, SAMPLES, V100, Tab, chromium, tab, tensorboard

DOCS = ROOT / "docs" / "views.md"
REAL = ROOT.parent / "shared" / "data" / "tracelens"
TRACES = {
    "V100": V100 / "resnet50_num_workers_0",
    "H100": REAL / "h100" / "Falconsai_nsfw_image_detection__1016002.json.gz",
    "MI300": REAL / "mi300" / "resnet_act_checkpoint.json.gz",
    "decode": REAL / "sglang_decode" / "sglang_Qwen3-8B_decode.json.gz",
    "CPU": SAMPLES / "resnet_cpu",
}
_TITLE = re.compile(r"^###? .*\(`(\w+)`\)$")
_ROW = re.compile(r"^\| (\w+) \| (?:`([^`]*)`)? ?\| `(.*)` \|$")
_FIRST = """
() => {
  const main = document.querySelector('#main')
  const plain = (text) => text.replace(/\\s+/g, ' ').trim()
  const text = (node) => {
    const buttons = node.matches('p') ? [...node.querySelectorAll('button')].filter((each) => !each.closest('b')) : []
    return plain(buttons.reduce((rest, each) => rest.replace(each.innerText, ''), node.innerText))
  }
  const all = (selector) => [...main.querySelectorAll(selector)]
  const figure = (each) => [...each.querySelectorAll('dt, dd b, dd em')].map(text).join(' ')
  const heads = all('[role=columnheader]')
  const short = (name) => (name.length > 90 ? `${name.slice(0, 88)}…` : name)
  const spoken = main.querySelector('[data-testid=answer], [data-testid=timeline-foot] > span')
  if (spoken) return text(spoken)
  const figures = all('[data-testid=headline] > div')
  if (figures.length) return figures.slice(0, 3).map(figure).join(' · ')
  const row = main.querySelector('[role=treeitem]')
  if (row) {
    const titles = [...main.querySelector('[role=tree]').previousElementSibling.children].map(text)
    const [name, ...values] = [...row.children].map(text)
    return `${short(name)}: ${titles[1]} ${values[0]}, ${titles[2]} ${values[1]}`
  }
  const leading = main.querySelector('[role=row][aria-rowindex="2"]')
  const cells = leading ? [...leading.querySelectorAll('[role=rowheader], [role=cell]')] : []
  if (!cells.length) return text(main.querySelector('h2 + p'))
  const at = heads.findIndex((head) => ['ascending', 'descending'].includes(head.ariaSort))
  const name = cells[0].querySelector('[title]')?.title || text(cells[0])
  return `${short(name)}: ${text(heads[at])} ${text(cells[at])}`
}
"""


@dataclass(frozen=True)
class Answer:
    """One row of the docs."""

    view: str
    trace: str
    state: str
    text: str
    line: int


def documented() -> list[Answer]:
    """The answers of docs/views.md."""
    found, view = [], ""
    for number, line in enumerate(DOCS.read_text(encoding="utf-8").splitlines()):
        if title := _TITLE.match(line):
            view = title[1]
        elif row := _ROW.match(line):
            found.append(Answer(view, row[1], row[2] or "", row[3], number))
    return found


def lay_out(logdir: Path) -> None:
    """Copies the traces of this machine into runs of their names."""
    for name, source in TRACES.items():
        if source.is_dir():
            shutil.copytree(source, logdir / name, copy_function=shutil.copyfile)
        elif source.is_file():
            (logdir / name).mkdir(parents=True)
            shutil.copyfile(source, logdir / name / source.name)


def shown(page: Tab, answer: Answer) -> str:
    """Opens the view and returns what it says first: a sentence, figures, a row of a tree or the leading one of a table."""
    state = dict(part.split("=", 1) for part in answer.state.split("&") if part)
    said: str = page.follow(run=answer.trace, view=answer.view, per="", **state).evaluate(_FIRST)
    return said


def main() -> None:
    """Rewrites the rows of the docs."""
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright, chromium(playwright) as browser:
        lay_out(Path(folder, "logs"))
        with tensorboard(Path(folder, "logs"), Path(folder, "cache")) as address, tab(browser, address) as page:
            for answer in documented():
                head = lines[answer.line].rpartition(" | ")[0]
                lines[answer.line] = f"{head} | `{shown(page, answer)}` |"
    DOCS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
