"""An operator that dies at any write leaves a world that its successor takes to the same end."""

import pytest

from tests.property.rollouts.drive import Play, Scenario
from tests.property.rollouts.scenarios import SCENARIOS
from tests.property.rollouts.server import Trouble


async def moments(scenario: Scenario) -> list[tuple[str, Play]]:
    """The course as it is right after each write of the operator, with an operator that was just started."""
    play = await Play.begin(scenario)
    found = []

    def remember(number: int, what: str) -> Trouble:
        found.append((what, play.fork()))
        return None

    play.operator.api.after = remember
    await play.go()
    return found


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_a_crash_after_any_write_changes_no_end(scenario: Scenario) -> None:
    for number, (what, play) in enumerate(await moments(scenario)):
        try:
            await play.go()
            await play.assert_ended()
        except AssertionError as error:
            raise AssertionError(f"after a crash behind write {number} ({what}): {error}") from error
