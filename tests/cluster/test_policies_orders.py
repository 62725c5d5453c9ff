"""Policy P9 of the chart, orders: who may give which, for which Rollout, until when."""

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.court import ORDER, OTHER_UID, Court, hold_court, in_minutes, make_court, verb
from tests.cluster.shop import Shop, allowed, refused

pytestmark = pytest.mark.cluster

IMMUTABLE = "An order can't be changed: create another."


@pytest.fixture
def court(shop: Shop) -> Court:
    return make_court(shop)


class TestOrders:
    """P9: an order is signed by the one who gives it, who must hold `operate`."""

    @pytest.mark.parametrize("order", ["Retry", "Abort", "Pause", "Resume", "MoreSamples", "Escalate"])
    def test_an_order_that_is_right_in_all_parts_goes_through(self, court: Court, order: str) -> None:
        allowed(court.order(court.reviewer(), order=order))

    def test_nobody_signs_for_somebody_else(self, court: Court) -> None:
        answer = court.order(court.reviewer(), orderedBy="reviewer-b")
        refused(
            answer, "spec.orderedBy is reviewer-b, but you are reviewer-a. Nobody signs for somebody else."
        )

    def test_groups_are_those_that_the_api_server_sees(self, court: Court) -> None:
        answer = court.order(court.reviewer(), groups=["sre"])
        refused(answer, "spec.groups are not the groups that the API server sees you in.")

    def test_without_the_verb_operate_it_is_refused(self, court: Court) -> None:
        answer = court.order(
            court.shop.person("reviewer-c", rules=[ORDER, verb("approve")]), orderedBy="reviewer-c"
        )
        where = f"rollout checkout in {court.shop.namespace}"
        refused(answer, f"reviewer-c may not order Retry for {where}: the verb operate")

    def test_an_order_for_an_earlier_rollout_of_the_same_name_is_refused(self, court: Court) -> None:
        answer = court.order(court.reviewer(), rolloutUID=OTHER_UID)
        refused(answer, "This order is for another Rollout of the same name.")

    def test_an_order_is_never_changed(self, court: Court) -> None:
        name = court.order(court.reviewer()).json["metadata"]["name"]
        patch = '{"spec": {"reason": "another reason"}}'
        answer = court.shop.run(court.shop.admin, "patch", "gateorder", name, "--type=merge", "-p", patch)
        refused(answer, IMMUTABLE)


class TestOverrides:
    """P9: an Override needs a right of its own and ends within the hour; one's own change is no obstacle."""

    def overrider(self, court: Court, name: str = "sre-1", *also: dict[str, Any]) -> Path:
        return court.shop.person(name, rules=[ORDER, verb("override"), *also])

    def test_with_the_verb_it_goes_through(self, court: Court) -> None:
        allowed(court.order(self.overrider(court), order="Override", orderedBy="sre-1"))

    def test_the_role_for_emergencies_suffices(self, court: Court) -> None:
        who = court.shop.person("sre-1", roles=("gatewright-override",))
        allowed(court.order(who, order="Override", orderedBy="sre-1"))

    def test_a_reviewers_rights_do_not_suffice(self, court: Court) -> None:
        where = f"rollout checkout in {court.shop.namespace}"
        refused(
            court.order(court.reviewer(), order="Override"),
            f"reviewer-a may not order Override for {where}: the verb override on rollouts.gatewright.dev is missing.",
        )

    @pytest.mark.parametrize("order", ["Retry", "Abort", "Pause", "Resume", "MoreSamples", "Escalate"])
    def test_the_verb_override_gives_no_other_order(self, court: Court, order: str) -> None:
        answer = court.order(self.overrider(court), order=order, orderedBy="sre-1")
        refused(answer, "the verb operate on rollouts.gatewright.dev is missing.")

    def test_it_may_be_used_on_ones_own_change(self, court: Court) -> None:
        held = hold_court(court)
        allowed(held.order(self.overrider(court, "developer"), order="Override", orderedBy="developer"))

    def test_it_does_not_end_before_it_begins(self, court: Court) -> None:
        answer = court.order(
            self.overrider(court), order="Override", orderedBy="sre-1", expiresAt="2020-01-01T00:00:00Z"
        )
        refused(answer, "spec.expiresAt 2020-01-01T00:00:00Z has passed.")

    def test_it_ends_within_the_hour(self, court: Court) -> None:
        end = in_minutes(62)
        answer = court.order(self.overrider(court), order="Override", orderedBy="sre-1", expiresAt=end)
        refused(
            answer,
            f"An Override ends after 1h at most; this one would end at {end}. Order it again with a nearer end.",
        )

    def test_without_an_end_it_is_refused(self, court: Court) -> None:
        answer = court.order(self.overrider(court), order="Override", orderedBy="sre-1", expiresAt=None)
        refused(answer, "An Override needs expiresAt, at most an hour ahead.")
