"""Each course ends as it must, and at no write on the way is anything so that must never be."""

import pytest

from tests.property.rollouts.drive import Play, Scenario
from tests.property.rollouts.scenarios import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_a_release_ends_as_it_must(scenario: Scenario) -> None:
    play = await Play.begin(scenario)
    await play.go()
    await play.assert_ended()
