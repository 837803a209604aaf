"""HTTP: routes, and the payloads and tables of each view."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin.analysis.view_entry import ViewEntry
from tb_plugin.model_kinds import MODELS
from tb_plugin.views import ANALYSES
from tb_plugin.web.route_texts import ROUTES

HEAD = """# HTTP reference

[HTTP interface](../http.md) explains errors, the parameters `P` and `S`, runs, tiles and progress.

## Routes

| route | parameters | answer |
|---|---|---|"""
VIEWS = """## Views

`View.payloads` is a map by name. A client must accept names that it does not know, and draw them by `kind`."""
SCOPES = {
    "profile": "one profile",
    "workers": "all workers of a run and span",
    "pair": "a baseline and an experiment",
}
NOUNS = {model.type_name: model.noun for model in MODELS}


def page() -> str:
    """Returns the page."""
    routes = "\n".join(f"| {_code(each.path)} | {each.parameters} | {each.answer} |" for each in ROUTES)
    return "\n\n".join([f"{HEAD}\n{routes}", VIEWS, *map(_section, ANALYSES)])


def _code(path: str) -> str:
    return ", ".join(f"`{name.strip()}`" for name in path.split(","))


def _section(view: ViewEntry) -> str:
    return "\n".join([f"### `{view.id}`: {view.title}", "", *(f"- {line}" for line in _facts(view))])


def _facts(view: ViewEntry) -> Iterator[str]:
    traits = view.traits
    yield f"**About**: {SCOPES[view.scope]} ({NOUNS[view.model_name]}). Group {traits.group}, {traits.place}."
    yield f"**Phase**: {traits.phase_note or 'The numbers follow `phase` and `pattern`.'}"
    if view.http.parameters:
        yield f"**Parameters**: {view.http.parameters}"
    if view.http.payloads:
        yield f"**Payloads**: {view.http.payloads}"
    if view.http.tables:
        yield f"**Tables**: {view.http.tables}"
    if traits.tables:
        yield f"**Always in JSON reports**: {', '.join(f'`{name}`' for name in traits.tables)}."
    for other, names in view.borrows.items():
        yield f"**Uses** of `{other}`: {', '.join(f'`{name}`' for name in names)}."
