"""The model of what an analysis of a whole job found: tables about its ranks, and neither events nor steps to choose."""

from __future__ import annotations

from tb_plugin.model.cluster import arrow
from tb_plugin.model.cluster.table import Cluster
from tb_plugin.model_kinds.base import Feature, Outline


class ClusterModel:
    """A ClusterModel knows how the analysis of a job is made, kept and told."""

    id = "cluster"
    noun = "an analysis of a job"
    version = arrow.VERSION
    default_view = "cluster"
    features: tuple[Feature, ...] = ()
    raw = Cluster
    type = Cluster

    def assemble(self, raw: Cluster) -> Cluster:
        """Returns what the reader returned."""
        return raw

    def write(self, made: Cluster, path: str) -> None:
        """Writes the column file. Raises OSError."""
        arrow.write(made, path)

    def read(self, path: str) -> Cluster:
        """Returns it, its columns mapped. Raises KeptLost."""
        return arrow.read(path)

    def outline(self, made: Cluster) -> Outline:
        """Returns its report: clocks of many ranks are none."""
        return Outline(made.report)

    def open_beside(self, made: Cluster, path: str) -> None:
        """Keeps nothing beside it."""
