"""What would change a check's answer, in one sentence for the reviewer. Keyed by the words of `Reason`."""

from gatewright_cli.kube import Object
from gatewright_cli.output import clean, share

_NEW_REVISION = "a new revision: the evidence is proven and will not change"
_SOURCE = "the source has to answer again; then a new run of this gate"

BY_REASON = {
    "BreachAbsolute": _NEW_REVISION,
    "BreachTwoArm": "a new revision that is no worse than stable in the same windows",
    "TotalFailure": _NEW_REVISION,
    "FailedThreshold": "a new revision, or another limit in the contract: the limit is proven to be missed",
    "PodFailure": "a new revision whose pods stay up",
    "PodsNotReady": "pods of the canary that become ready",
    "PodsUnschedulable": "room in the cluster or the quota for the canary's pods",
    "ImageTrouble": "an image that the nodes can pull",
    "SharedOutage": "stable has to recover: it fails as well, so nothing is proven about the canary",
    "SamplesExhausted": "a release that is completed, or a person's retry: both open another three artifacts",
    "DriftedTail": "a run whose last windows are as good as its first",
    "ScrapeGap": "a run without gaps between scrapes",
    "MissingTooMany": "a run in which fewer windows are missing",
    "StaleSample": "the source has to scrape the canary again",
    "ArmsNotSeparable": "series that tell canary and stable apart; look at the MetricSource's arms",
    "BadLabelAbsent": "a `bad` selector whose labels occur on the series of `total`",
    "BucketResolution": "a limit `le` that is a bucket boundary of the histogram",
    "SourceNotFound": "the MetricSource that the contract names has to exist",
    "SourceNotAllowed": "the MetricSource has to allow this namespace; its owner can",
    "SecretNotFound": "the Secret that the MetricSource names has to exist in the operator's namespace",
    "SourceUnauthorized": "credentials that the source accepts",
    "NoEvidenceForStage": "an evidence entry for this stage in the contract",
    "NoData": "series for the canary at the source: does it get requests, and is it scraped?",
    "SourceTimeout": _SOURCE,
    "SourceUnreachable": _SOURCE,
    "SourceServerError": _SOURCE,
    "SourceClientError": "a query that the source accepts; look at the contract's selectors",
    "QueryError": "a query that the source accepts; look at the contract's selectors",
    "SourceNotJson": "an address in the MetricSource that answers as Prometheus does",
    "SourceRedirected": "the MetricSource's address has to be the one that answers itself",
    "SourceTlsError": "a certificate at the source that the MetricSource's CA signs",
}


def advise(check: Object) -> str:
    """One sentence without a capital or a full stop, to stand after the check's id."""
    reason = str(check.get("reason", ""))
    seen, planned = check.get("samples") or 0, check.get("planned") or 0
    threshold, lower = check.get("threshold"), check.get("ciLower")
    if reason in ("LowTraffic", "Collecting", "NotProven") and planned > seen:
        missing = f"{planned - seen} more samples ({seen} of {planned} so far)"
        return f"{missing}: more traffic, or a longer maxDuration"
    if reason == "BelowThreshold" and lower is not None and threshold is not None:
        # After the planned look a pass needs far more than was planned; the verdict's own sentence says how many.
        spent = (check.get("statistics") or {}).get("ticketUsed")
        more = f", or {planned - seen} more samples" if planned > seen and not spent else ""
        return (
            f"a proven share of at least {share(threshold, lower)}; proven is {share(lower, threshold)}{more}"
        )
    if reason in BY_REASON:
        return BY_REASON[reason]
    message = clean(check.get("message", "")).rstrip(".")
    return "a run in which this check passes" + (f" ({message})" if message else "")


def after_approval(steps: list[Object], step: object, bake: bool) -> str:
    """Where the change goes when the hold at `step` is approved."""
    key = str(step)
    if not key.isdecimal():
        return "the release is finished as it is"
    weights = [each["setWeight"] for each in steps[int(key) + 1 :] if "setWeight" in each]
    if weights:
        return f"the canary gets {weights[0]} % of the traffic and is judged again there"
    return "the new version goes to all pods" + (" and is watched while it bakes" if bake else "")
