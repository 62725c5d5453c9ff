"""A plan under construction."""

from datetime import UTC, datetime

from gatewright_analysis.kinds.rollout import Rollout
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.draft import Draft
from gatewright_operator.plan.snapshot import Snapshot
from tests.cluster.checkout import rollout


def test_a_sentence_that_is_longer_than_the_field_is_cut() -> None:
    """The API server would refuse the whole status for it, and the hold that it tells of would never be."""
    draft = Draft(Snapshot(datetime(2026, 1, 1, tzinfo=UTC), Rollout.model_validate(rollout())))
    draft.say(Reason.HELD, "x" * 2000)
    assert len(draft.status.message) == 1024
    draft.wait("y" * 2000)
    assert len(draft.status.message) == 1024
