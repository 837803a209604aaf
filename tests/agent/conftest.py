"""One server on the samples for all tests of agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agent.client import Agent, agent_on


@pytest.fixture(scope="session")
def samples() -> Iterator[Agent]:
    with agent_on("samples") as agent:
        yield agent
