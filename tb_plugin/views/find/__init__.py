"""The ``find`` view."""

from __future__ import annotations

from tb_plugin.analysis.base import Traits
from tb_plugin.analysis.view_entry import TRACE, ViewEntry, ViewText

VIEW = ViewEntry(
    __name__,
    "find",
    "Find",
    order=400,
    model=TRACE,
    traits=Traits("", "detail", phase_note=""),
    http=ViewText(
        parameters=(
            "`in` (`names`, `args`, `all`, `first`), `exact` (0/1; 1 matches whole texts only), "
            "`start_ns`, `end_ns` (events that touch this range), `bins` (slices of the whole trace, "
            "default 1200), `near_ns`. `in=args` searches recorded texts, the category, and numbers "
            "without a column if they equal the whole text. `in=first` searches `args` if no name "
            "contains the text."
        ),
        payloads=(
            "The view searches the whole trace, or the part selected by S. `search` is a query of terms joined by "
            'AND: text in any case, `"quoted text"`, `/regex/`, or a field: `dur>100us` (ns, us, ms, s; also `<`, '
            "`>=`, `<=`, `=`), `kind:kernel`, `stream:7`, `thread:text`, `name:text`, `op:text` (operators and all "
            "events inside them, including device work), `arg.KEY=value` (a recorded argument). A text field "
            "contains the text, or equals it with `=`. `-` before a term excludes its events. Names of kernels also "
            "match as the page shows them, such as `conv 128x32 f32`. "
            "`where` works as for `events`. `where` selects the events counted in a table row, "
            "also without S. `summary` (Figures, also per step), `marks` (Series, histogram: hits that start in each "
            "slice), `names` (by name and kind), `hits` (all, in order of time). With `near_ns`, also `near` "
            "(Figures). The figure `hit_position` in `near` is the index in `hits` of the first hit at or "
            "after `near_ns`. Use this index as `offset` of `table/find/hits`."
        ),
        tables="`hits`, `names`.",
    ),
)
