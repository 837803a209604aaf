"""HTTP: routes, and the payloads and tables of each view."""

from __future__ import annotations

from collections.abc import Iterator

from tb_plugin import registry
from tb_plugin.analysis.pages import page_title
from tb_plugin.analysis.view_entry import ViewEntry
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
NOUNS = {model.type_name: model.noun for model in registry.models()}


def page() -> str:
    """Returns the page."""
    routes = "\n".join(f"| {_code(each.path)} | {each.parameters} | {each.answer} |" for each in ROUTES)
    return "\n\n".join([f"{HEAD}\n{routes}", VIEWS, *map(_section, registry.analyses())])


def _code(path: str) -> str:
    return ", ".join(f"`{name.strip()}`" for name in path.split(","))


def _section(view: ViewEntry) -> str:
    return "\n".join([f"### `{view.id}`: {view.title}", "", *(f"- {line}" for line in _facts(view))])


def _facts(view: ViewEntry) -> Iterator[str]:
    traits = view.traits
    yield (
        f"**Covers**: {SCOPES[view.scope]} ({NOUNS[view.model_name]}). "
        f"Page: {page_title(traits.page) or 'none'}. Kind of view: {traits.place}."
    )
    yield f"**Phase**: {traits.phase_note or 'The parameters `phase` and `pattern` limit the numbers to a phase.'}"
    if view.http.parameters:
        yield f"**Parameters**: {view.http.parameters}"
    if view.http.payloads:
        yield f"**Payloads**: {view.http.payloads}"
    if view.http.tables:
        yield f"**Tables**: {view.http.tables}"
    if traits.tables:
        yield f"**Always in JSON reports**: {', '.join(f'`{name}`' for name in traits.tables)}."
    for other, names in view.borrows.items():
        yield f"**Data from the view `{other}`**: {', '.join(f'`{name}`' for name in names)}."
