"""What `kubectl gate review` and `holds` say of a HOLD, as data: the page says the same. The only module that asks them."""

from collections.abc import Sequence
from typing import Any

from gatewright_cli.advice import advise
from gatewright_cli.checks import bounds, samples
from gatewright_cli.holds import held_of
from gatewright_cli.kube import Object
from gatewright_cli.output import clean, share
from gatewright_cli.review import Case, as_json
from gatewright_cli.view import View, good_ratio, proven, step_word

__all__ = [
    "advise",
    "bounds",
    "explain",
    "good",
    "held_of",
    "is_held",
    "proven",
    "samples",
    "step_word",
]


def explain(
    rollout: Object, run: Object | None, contract: Object | None, runs: Sequence[Object]
) -> dict[str, Any]:
    """As `kubectl gate review -o json` gives it; `nextActions` are the commands, ready to paste but for the reason."""
    return as_json(Case(View(rollout, run=run), contract, tuple(runs)))


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
    return clean(f"{statistics['restarts']} restarts") if statistics.get("restarts") is not None else "–"
