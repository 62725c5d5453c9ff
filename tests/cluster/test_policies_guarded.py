"""The real operator looks at the policies that prove who decides: without them, or with altered ones, no approval counts."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from devcluster import ApiRefused, Instance
from devcluster.install import Operator
from tests.cluster.releases import DOUBTFUL, Person, Release, contract
from tests.cluster.support import Manifest, eventually, rest

pytestmark = pytest.mark.timeout(300)

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{GROUP}/validatingadmissionpolicies", f"{GROUP}/validatingadmissionpolicybindings"
IDENTITY, SCOPE = "gatewright-review-identity", "gatewright-review-scope"


@pytest.fixture
def held(cluster: Instance, operator: Operator, namespace: str) -> Release:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(**DOUBTFUL)
        shop.phase("Held")
    return shop


@contextmanager
def altered(shop: Release, path: str, name: str, change: Callable[[Manifest], Any] | None) -> Iterator[None]:
    """Inside the block the object is changed (or gone, where there is no change); afterwards it is as before."""
    admin = shop.cluster.kubeconfig
    before = rest(admin, "GET", f"{path}/{name}")
    if change is None:
        rest(admin, "DELETE", f"{path}/{name}")
    else:
        after = copy.deepcopy(before)
        change(after["spec"])
        rest(admin, "PUT", f"{path}/{name}", after)
    try:
        yield
    finally:
        metadata = {key: before["metadata"][key] for key in ("name", "labels")}
        try:
            now = rest(admin, "GET", f"{path}/{name}")
            metadata["resourceVersion"] = now["metadata"]["resourceVersion"]
            rest(admin, "PUT", f"{path}/{name}", before | {"metadata": metadata})
        except ApiRefused as error:
            if error.status != 404:
                raise
            rest(admin, "POST", path, before | {"metadata": metadata})


def condition(shop: Release, kind: str = "WaiversUnavailable") -> Any:
    return {c["type"]: c for c in shop.status.get("conditions", [])}.get(kind, {})


def wait_for(shop: Release, status: str, sentence: str) -> None:
    def there() -> bool:
        found = condition(shop)
        assert found.get("status") == status, found
        assert sentence in found["message"], found
        return True

    eventually(there, 30, f"WaiversUnavailable is {status} and says {sentence!r}")


CHANGES: dict[str, tuple[str, str, Callable[[Manifest], Any] | None, str]] = {
    "removed": (POLICIES, SCOPE, None, f"policy {SCOPE} is missing"),
    "unbound": (BINDINGS, SCOPE, None, f"policy {SCOPE} has no binding"),
    "only warns": (
        BINDINGS,
        IDENTITY,
        lambda s: s.update(validationActions=["Warn"]),
        f"the binding of policy {IDENTITY} does not deny",
    ),
    "altered": (
        POLICIES,
        IDENTITY,
        lambda s: s["validations"][0].update(expression="true"),
        f"policy {IDENTITY} is altered at spec.validations[0].expression",
    ),
    "narrowed": (
        POLICIES,
        IDENTITY,
        lambda s: s["matchConstraints"].update(namespaceSelector={"matchLabels": {"reviewed": "yes"}}),
        f"policy {IDENTITY} is altered at spec.matchConstraints.namespaceSelector",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_while_a_policy_is_not_as_shipped_no_approval_counts_and_put_back_it_does(
    held: Release, as_user: Person, change: str
) -> None:
    wait_for(held, "False", "The API server proves who decides")
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    path, name, how, sentence = CHANGES[change]
    with altered(held, path, name, how):
        wait_for(held, "True", f"Approvals and Overrides are refused: {sentence}.")
        assert condition(held, "Guarded")["status"] == "True", "new templates are held all the same"
        said = held.answer("gatereviews", held.review("Approve", who=reviewer))
        assert (said["outcome"], said["reason"]) == ("Refused", "WaiversUnavailable")
        assert sentence in said["message"]
        noted = held.answer("gatereviews", held.review("RequestChanges", who=reviewer))
        assert noted["outcome"] == "Accepted", "a decision that lets nothing through counts"
    wait_for(held, "False", "The API server proves who decides")
    assert held.status["phase"] == "Held"

    def accepted() -> bool:
        # What is written in the first seconds is refused: the API server may not have applied the policy yet.
        said = held.answer("gatereviews", held.review("Approve", who=reviewer))
        assert said["outcome"] == "Accepted", said
        return True

    eventually(accepted, 60, "an approval counts again", interval=1)


def test_a_forged_approval_counts_neither_while_the_policy_is_away_nor_when_it_is_back(
    held: Release, as_user: Person
) -> None:
    as_user("reviewer-a", roles=("gatewright-reviewer",))
    forger = as_user("reviewer-b", roles=("gatewright-reviewer",))
    with altered(held, BINDINGS, IDENTITY, None):
        eventually(
            lambda: held.review("Approve", who=forger, reviewer="reviewer-a").ok, 30, "the forgery is let in"
        )
    found = [r for r in held.all("gatereviews.gatewright.dev") if r["spec"]["reviewer"] == "reviewer-a"]
    assert found, "the forgery was written"

    def refused() -> bool:
        statuses = [r.get("status") or {} for r in held.all("gatereviews.gatewright.dev")]
        return all(s.get("outcome") == "Refused" and s["reason"] == "WaiversUnavailable" for s in statuses)

    eventually(refused, 60, "the operator refuses it")
    assert held.status["phase"] == "Held"


def test_a_forgery_from_a_time_without_operator_and_policy_does_not_count_when_both_are_back(
    held: Release, as_user: Person, operators: Any
) -> None:
    as_user("reviewer-a", roles=("gatewright-reviewer",))
    forger = as_user("reviewer-b", roles=("gatewright-reviewer",))
    operators.stop()
    with altered(held, POLICIES, IDENTITY, lambda s: s["validations"][0].update(expression="true")):
        eventually(
            lambda: held.review("Approve", who=forger, reviewer="reviewer-a", groups=groups(held, forger)).ok,
            30,
            "the forgery is let in",
        )
    operators.ensure()
    (forgery,) = [r["metadata"]["name"] for r in held.all("gatereviews.gatewright.dev")]
    said = eventually(lambda: held.get("gatereviews", forgery).get("status"), 60, "it is answered")
    assert (said["outcome"], said["reason"]) == ("Refused", "WaiversUnavailable"), said
    assert "The policies that prove who wrote this were changed at" in said["message"]
    assert held.status["phase"] == "Held"


def groups(shop: Release, who: Any) -> list[str]:
    answer = shop.kubectl("auth", "whoami", "-o", "json", who=who).json
    return list(answer["status"]["userInfo"]["groups"])


def test_what_the_contract_allows_reaches_the_policies_by_status_and_stays_that_of_the_attempt(
    held: Release, as_user: Person
) -> None:
    def hours(text: str) -> None:
        held.apply(contract(hold={"maxWaiver": text}))

    assert held.status["decisions"]["maxWaiver"] == "72h"
    hours("1h")
    eventually(
        lambda: held.get("gatecontracts", "checkout")["metadata"]["generation"] == 2,
        20,
    )
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))
    said = held.answer("gatereviews", held.review("Approve", who=reviewer))
    assert said["outcome"] == "Accepted", "what is held was judged by the contract of before"
    held.phase("Idle")
    eventually(
        lambda: held.status["decisions"]["maxWaiver"] == "1h", 30, "the next attempt goes by the new one"
    )


def test_a_machine_that_the_contract_lists_approves_and_the_operator_hears_it(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    user, group = f"system:serviceaccount:{namespace}:release-bot", "rbac.authorization.k8s.io"
    shop = Release.create(cluster, namespace, contract_spec=contract(hold={"serviceAccounts": [user]}))
    admin = cluster.kubeconfig
    rest(
        admin,
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts",
        {"metadata": {"name": "release-bot"}},
    )
    binding = {
        "metadata": {"name": "release-bot"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "gatewright-reviewer"},
        "subjects": [{"kind": "ServiceAccount", "name": "release-bot", "namespace": namespace}],
    }
    rest(admin, "POST", f"/apis/{group}/v1/namespaces/{namespace}/rolebindings", binding)
    with shop.traffic():
        shop.release(**DOUBTFUL)
        shop.phase("Held")
    assert shop.status["decisions"]["serviceAccounts"] == [user]
    said = shop.answer(
        "gatereviews",
        shop.review("Approve", who=cluster.service_account_kubeconfig(namespace, "release-bot")),
    )
    assert said["outcome"] == "Accepted", said
    review = next(e for e in shop.ledger() if e["key"]["kind"] == "Review")
    assert review["actor"]["name"] == user
