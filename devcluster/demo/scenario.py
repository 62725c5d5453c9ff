"""What happens in the demo: four releases, and how each should end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from devcluster.demo.forgery import forge, refused, sentence
from devcluster.demo.numbers import first_failing_scrape, seconds_of
from devcluster.demo.people import NAMESPACE, Person
from devcluster.demo.release import Ending, Release, WrongEnd
from devcluster.demo.stage import Json, Stage
from devcluster.demo.view import View

RATE_PER_SECOND = 300.0
"""A quarter of it shows errors of 10 % beside 1 % within three windows of two seconds."""
TOTAL_FAILURE_SECONDS = 3.0
"""`totalFailure.for` of the contract."""
_RESTORED_WITHIN_SECONDS = TOTAL_FAILURE_SECONDS + 3.0
_WRITTEN_WITHIN_SECONDS = 0.3
_WINDOWS = 3
_PATIENCE_SECONDS = 90.0
"""Several times what a release takes on a machine that is not busy with something else."""
_HEALTHY_SECONDS = 12
"""How long the bad version serves well: until its first gate is under way."""
_REASON = "Slow answers come from one report that nobody waits for; looked at the traces."


@dataclass(frozen=True)
class Scene:
    """A release and its story; `play` raises WrongEnd when it ends otherwise than it should."""

    title: str
    play: Callable[[Stage, View], None]


def good(stage: Stage, view: View) -> None:
    """Promoted step by step, then watched with all the traffic."""
    view.say("As good as the one before: one request in a hundred fails, and the contract allows five.")
    release = Release(stage, view, "v2", {})
    status = release.wait_for(Ending.PROMOTED, seconds=_PATIENCE_SECONDS)
    release.expect_in_ledger(
        status, "Started", "WeightSet", "Verdict", "WeightSet", "Verdict", "Promoted", "Verdict", "Completed"
    )
    view.say(f"✓ v2 was promoted step by step and baked, in {release.seconds:.0f} s.")


def bad(stage: Stage, view: View) -> None:
    """Rolled back at once."""
    view.say(f"Fine for {_HEALTHY_SECONDS} seconds, and then nine requests in ten fail.")
    release = Release(stage, view, "v3", {"ERROR_RATE": "0.9", "ERROR_AFTER_SECONDS": str(_HEALTHY_SECONDS)})
    status = release.wait_for(Ending.ROLLED_BACK, seconds=_PATIENCE_SECONDS)
    release.expect_in_ledger(status, "Started", "WeightSet", "Back", "RolledBack")
    verdict = release.run(status)
    view.say("✓ v3 was rolled back.")
    for line in times_of_the_way_back(stage, release, verdict):
        view.say(f"  {line}")


def subtle(stage: Stage, view: View) -> None:
    """Rolled back on evidence of a few seconds."""
    view.say("One request in ten fails instead of one in a hundred: nobody would see it at a glance.")
    release = Release(stage, view, "v4", {"ERROR_RATE": "0.1", "ERROR_AFTER_SECONDS": "0"})
    status = release.wait_for(Ending.ROLLED_BACK, seconds=_PATIENCE_SECONDS)
    release.expect_in_ledger(status, "Started", "WeightSet", "Verdict", "Back", "RolledBack")
    verdict = release.run(status)
    convicted = [check for check in verdict["checks"] if check.get("breach")]
    view.say("✓ v4 was rolled back.")
    windows = min((int(check["statistics"]["windows"]) for check in convicted), default=0)
    view.say(f"  caught in window {windows} of its gate ({_met(windows, _WINDOWS)}: {_WINDOWS} at most)")


def doubtful(stage: Stage, view: View) -> None:
    """Held until the right person approves it, then promoted."""
    view.say(
        "Almost one answer in twenty takes a second, and one in twenty is the limit: neither proven nor refuted."
    )
    release = Release(stage, view, "v5", {"ERROR_RATE": "0.01", "LATENCY_SLOW_RATE": "0.047"})
    status = release.wait_for(Ending.HELD, seconds=_PATIENCE_SECONDS)
    hold = status["hold"]
    if hold["breach"] or hold["blocking"] != ["fast-answers"]:
        raise WrongEnd(f"v5 should be held for doubt about fast-answers alone, and is: {hold['message']}")
    if hold["initiator"] != stage.people.developer.name:
        raise WrongEnd(
            f"v5 was changed by {stage.people.developer.name}, and the hold names {hold['initiator'] or 'nobody'}."
        )
    view.say("✓ v5 is held. It stays so until somebody who may decides.")
    view.say()
    _type(view, stage.people.reviewer, "review", "checkout")
    _try_to_cheat(stage, view)
    release.decided(status)
    _type(view, stage.people.reviewer, "approve", "checkout", "--reason", _REASON, "--expires", "1h", "--yes")
    status = release.wait_for(Ending.PROMOTED, seconds=_PATIENCE_SECONDS)
    release.expect_in_ledger(status, "Started", "Verdict", "Review", "Promoted", "Completed")
    view.say(f"✓ v5 was promoted and baked, on the word of {stage.people.reviewer.name}.")


SCENES: Sequence[Scene] = (
    Scene("1. A good release (v2)", good),
    Scene("2. A bad release (v3)", bad),
    Scene("3. Another bad release, of the subtle kind (v4)", subtle),
    Scene("4. A doubtful release (v5)", doubtful),
)


def times_of_the_way_back(stage: Stage, release: Release, verdict: Json) -> list[str]:
    """How long it took from the first failing scrape, and from the decision. Raises WrongEnd when one is missing."""
    decided = seconds_of(verdict["finishedAt"])
    written = release.audit.first_write("httproutes", after=decided)
    failing = first_failing_scrape(stage.cluster.prometheus_url, release.began)
    if written is None or failing is None:
        missing = "the write of the route" if written is None else "a failing scrape"
        raise WrongEnd(f"{release.version} was rolled back, but {missing} is not on record.")
    # Both must have happened: the route is written, and nobody meets the version any more.
    restored = max(written, stage.traffic.last_answer_of(release.version))
    from_scrape, from_decision = restored - failing, written - decided
    return [
        f"first failing scrape → all traffic on stable: {from_scrape:.2f} s "
        f"({_met(from_scrape, _RESTORED_WITHIN_SECONDS)}: {_RESTORED_WITHIN_SECONDS:g} s at most, "
        f"of which totalFailure.for is {TOTAL_FAILURE_SECONDS:g} s)",
        f"decision → the write that restores: {from_decision:.2f} s "
        f"({_met(from_decision, _WRITTEN_WITHIN_SECONDS)}: {_WRITTEN_WITHIN_SECONDS:g} s at most)",
    ]


def _met(value: float, most: float) -> str:
    return "met" if value <= most else "MISSED"


def _try_to_cheat(stage: Stage, view: View) -> None:
    """The developer may review in this namespace, but not the own change; and nobody in another's name."""
    developer, reviewer, other = stage.people.developer, stage.people.reviewer, stage.people.other_reviewer
    words = ("approve", "checkout", "--reason", "It works on my machine.", "--expires", "1h", "--yes")
    _say_command(view, developer, *words)
    own = refused(developer.gate, *words)
    expected = f"{developer.name} started this change; somebody else has to approve it."
    if expected not in own:
        raise WrongEnd(f"{developer.name} should not approve the own change for that reason, but: {own}")
    view.quote(f"Refused: {expected}")
    view.say(f"$ kubectl create -f review-signed-{reviewer.name}.json    # as {other.name}, by hand")
    forged = forge(other, stage.rollout(), in_the_name_of=reviewer.name, reason="Would you sign this for me?")
    if "Nobody signs for somebody else." not in forged:
        raise WrongEnd(f"A forged name should be refused for that, and was refused for: {forged}")
    view.quote(f"Refused: {sentence(forged)}")


def _type(view: View, who: Person, *words: str) -> None:
    """A command of the plugin, as `who` types it, and what it prints."""
    _say_command(view, who, *words)
    view.quote(who.gate(*words))


def _say_command(view: View, who: Person, *words: str) -> None:
    shown = " ".join(f"'{word}'" if " " in word else word for word in words)
    view.say(f"$ kubectl gate {shown} -n {NAMESPACE}    # as {who.name}")
