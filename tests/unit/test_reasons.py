"""One enum of reasons: explained, used, and the only words of their kind."""

import re
from pathlib import Path

from gatewright_analysis.reasons import Reason
from gatewright_operator.metrics import Metrics

ROOT = Path(__file__).resolve().parents[2]


def test_every_reason_stands_in_the_reference_with_a_sentence() -> None:
    page = (ROOT / "docs/reference/reasons.md").read_text()
    explained = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, flags=re.MULTILINE))
    assert explained.keys() == {reason.value for reason in Reason}
    assert all(sentence.endswith(".") for sentence in explained.values())


def test_every_reason_is_given_somewhere() -> None:
    code = "".join(
        path.read_text()
        for folder in ("analysis", "operator")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "reasons.py"
    )
    unused = [reason.name for reason in Reason if not re.search(rf"Reason\.{reason.name}\b", code)]
    assert not unused, f"nothing ever gives these reasons: {unused}"


def test_metrics_count_by_reason() -> None:
    metrics = Metrics()
    for reason in Reason:
        metrics.verdicts.inc(decision="HOLD", reason=reason)
        metrics.provider_errors.inc(source="prometheus", reason=reason)
    assert f'reason="{Reason.TOTAL_FAILURE.value}"' in metrics.render()
