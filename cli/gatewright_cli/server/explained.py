"""What `kubectl gate review` and `holds` say of a HOLD: the page says the same. The only module that asks them."""

from collections.abc import Sequence

from gatewright_cli.case import Case, approving, as_json, evidence_name
from gatewright_cli.checks import bounds, samples
from gatewright_cli.facts import facts
from gatewright_cli.holds import held_of, may_i
from gatewright_cli.kube import Object
from gatewright_cli.output import share
from gatewright_cli.view import View, good_ratio, proven, step_word

__all__ = [
    "Case",
    "approving",
    "as_json",
    "bounds",
    "case_of",
    "evidence_name",
    "facts",
    "good",
    "held_of",
    "is_held",
    "may_words",
    "proven",
    "samples",
    "step_word",
]


def case_of(
    rollout: Object,
    run: Object | None,
    runs: Sequence[Object],
    contract: Object | None,
    evidence: Object | None,
    unread: str,
) -> Case:
    """`run` is the held one, read by its name: a list that is cut may lack it."""
    others = [each for each in runs if run is None or each["metadata"]["name"] != run["metadata"]["name"]]
    return Case.of(rollout, [*others, *([] if run is None else [run])], contract, evidence, unread)


def is_held(rollout: Object) -> bool:
    return View(rollout).hold is not None


def good(check: Object) -> str:
    """The estimate: `99.48 %`, `value 12`, `3 restarts`, or a dash."""
    ratio = good_ratio(check)
    if ratio is not None:
        return share(ratio, check.get("threshold"))
    statistics = check.get("statistics") or {}
    if statistics.get("value") is not None:
        return f"value {statistics['value']:g}"
    return f"{statistics['restarts']} restarts" if statistics.get("restarts") is not None else "–"


def may_words(rollout: Object, allowed: bool, viewer: str, contract: Object | None = None) -> str:
    """Whether this viewer's approval would count, as far as it can be said before it is tried."""
    word = may_i(rollout, allowed, viewer)
    if word == "no":
        return "no: the verb approve is missing"
    if word != "yes" or not viewer.startswith("system:serviceaccount:"):
        return word
    if contract is None:
        return "only if the contract lists this service account"
    listed = ((contract.get("spec") or {}).get("hold") or {}).get("serviceAccounts") or ()
    return "yes" if viewer in listed else "no: the contract does not list this service account"
