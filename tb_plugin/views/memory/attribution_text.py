"""Operator, module and Python line of an event as text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tb_plugin.analysis.memory.metrics import METRICS
from tb_plugin.analysis.memory.tables import Scene, module_names
from tb_plugin.model.trace.schema import MISSING, NO_OPERATOR
from tb_plugin.payloads import Figure

Int64 = npt.NDArray[np.int64]


def operator_and_place(scene: Scene, event: int) -> list[Figure]:
    """Returns the operator, module and Python line of an event. Unknown ones are omitted."""
    at = np.array([event])
    name = int(scene.owners.names(scene.trace, at)[0])
    texts = {
        "name": NO_OPERATOR if name == MISSING else scene.trace.strings[name],
        "module": module_names(scene.trace, scene.owners.modules(scene.trace, at))[0].as_py(),
        "allocation_frame": scene.origins.frame.take(at)[0].as_py(),
    }
    return [METRICS.figure(key, text) for key, text in texts.items() if text]


def sentence_of(who: list[Figure]) -> str:
    """Returns the end of a sentence, with a placeholder for each of these values: operator, module and Python line."""
    words = {"name": "{name}", "module": " in {module}", "allocation_frame": ", line {allocation_frame}"}
    return "".join(words[figure.metric.key] for figure in who)


def filter_of(who: list[Figure]) -> str:
    """Returns a table filter for the Python line. If the line is unknown, filters by operator."""
    figure = who[-1] if who[-1].metric.key == "allocation_frame" else who[0]
    return f"{figure.metric.key}:{figure.value}"
