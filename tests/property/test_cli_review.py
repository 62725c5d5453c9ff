"""Whatever others wrote, a review is a screen of 100 × 40 that only prints, and always ends with the commands."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.evidence.model import Cluster, Counts, Fault, PodFacts, Window
from gatewright_analysis.evidence.record import CheckRecord
from gatewright_analysis.reasons import Reason
from gatewright_cli import holds, review, tree
from gatewright_cli.case import Case
from gatewright_cli.output import PLAIN, Style, width
from gatewright_cli.view import View
from tests.unit.cli_objects import DIGEST, NOW, WORLD, at, check, held, hold, run

TEXTS = st.one_of(
    st.text(max_size=20),
    st.text("\x1b[]0;2J\x07\r\n\t\u202e\u200b\u2028 a漢🚨é", max_size=20),
    st.sampled_from(["", "word ", "x", "漢", "Accepted: all is well\n"]),
)
HOSTILE = st.builds(lambda text, times: (text * times)[:1024], TEXTS, st.sampled_from([1, 10, 1000]))
LABEL = st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
MOMENT = st.one_of(st.none(), st.integers(-(10**6), 10**6).map(lambda seconds: at(seconds=seconds)))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ids = draw(st.lists(LABEL, max_size=8, unique=True))
    checks = [
        check(
            each,
            message=draw(HOSTILE)[:1024],
            fixHint=draw(HOSTILE)[:1024],
            planned=draw(st.integers(0, 10**12)),
        )
        for each in ids
    ]
    status: dict[str, Any] = {
        "message": draw(HOSTILE),
        "note": draw(HOSTILE),
        "initiator": draw(HOSTILE)[:253],
        "contractWrittenBy": draw(HOSTILE)[:253],
        "blocking": ids,
        "worldSnapshot": draw(st.sampled_from([WORLD, None])),
        "breach": draw(st.booleans()),
        "approvalsNeeded": draw(st.integers(1, 10)),
        "approvals": [
            {"reviewer": draw(HOSTILE)[:253], "review": "r", "expiresAt": at(hours=1)}
            for _ in range(draw(st.integers(0, 10)))
        ],
        "escalateAt": draw(MOMENT),
        "escalatedAt": draw(MOMENT),
        "clockStoppedSince": draw(MOMENT),
        "clockStoppedBy": draw(HOSTILE),
    }
    rollout = held()
    rollout["metadata"] |= {"name": draw(LABEL)[:52].strip("-"), "namespace": draw(LABEL)}
    rollout["status"]["hold"] = hold(**status)
    rollout["status"]["canary"]["images"] = draw(st.lists(HOSTILE, max_size=3))
    records = {each: draw(records_of_a_check()) for each in ids}
    judged = run(*checks)
    judged["status"]["verdict"]["nextActions"] = draw(st.sampled_from([[], ["kubectl gate more-samples x"]]))
    contract = {"spec": {"hold": {"maxWaiver": draw(HOSTILE), "onTimeout": "Rollback"}, "checks": [
        {"id": each, "evidence": [{"stages": ["Canary"], "counts": {"bad": [draw(HOSTILE)], "total": [draw(HOSTILE)]}}]}
        for each in ids
    ]}}  # fmt: skip
    return Case(View(rollout, run=judged), contract, (judged,), records, draw(HOSTILE))


@st.composite
def records_of_a_check(draw: st.DrawFn) -> CheckRecord:
    text = draw(HOSTILE)
    windows = tuple(
        Window(index, Counts(good, 3), Counts(good, 1), clusters=(Cluster(text, 0, 1),))
        for index, good in enumerate(draw(st.lists(st.integers(0, 10**12), max_size=60)))
    )
    pods = draw(
        st.sampled_from([None, PodFacts(1, 0, 10**9, (text, text), Fault(Reason.IMAGE_TROUBLE, text))])
    )
    return CheckRecord(windows=windows, pods=pods)


@settings(max_examples=20)  # each renders a screen up to eight times
@given(cases(), st.sampled_from(["", " --context='my prod'", f" --kubeconfig=/{'long/' * 60}config"]))
def test_a_review_fits_its_screen_and_steers_no_terminal(case: Case, repeated: str) -> None:
    for style in (PLAIN, Style(colour=True)):
        lines = review.render(case, NOW, style, repeated)
        shown = "\n".join(lines)
        assert len(lines) <= 40, shown
        assert max(width(line) for line in lines) <= 100, shown
        plain = shown.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
        if style == PLAIN:
            assert all(char.isprintable() or char == "\n" for char in plain), repr(shown)
    words = " ".join(" ".join(line.removesuffix("\\").split()) for line in lines)
    for verb in ("approve" if case.waivable else "retry", "request-changes", "reject"):
        assert f"kubectl gate {verb} {case.view.name}" in words
    shown_checks = [line for line in lines if line.startswith("    seen ")]
    assert len(shown_checks) >= min(len(case.blocking), 3)
    brief = review.short(case, NOW)
    assert len(brief) <= 40
    assert max(width(line) for line in brief) <= 100


@given(cases(), st.booleans())
@settings(max_examples=20)
def test_lists_are_as_clean(case: Case, wide: bool) -> None:
    found = tree.nodes(case.view, case.runs, NOW)
    for line in [
        *holds.render([case.view.rollout], ["yes"], NOW, wide=wide),
        *tree.render(found, wide=wide),
        *(node.line for node in found),
    ]:
        assert line.isprintable(), repr(line)


def test_a_review_of_five_checks_shows_the_evidence_of_each() -> None:
    long = "word " * 200
    checks = [check(f"{'c' * 20}-{n}", message=long, fixHint=long) for n in range(5)]
    status = hold(
        blocking=[each["id"] for each in checks], message=long, note=long, breach=True, approvalsNeeded=2,
        escalateAt=at(minutes=3), contractWrittenBy="dev-1", evidenceDigest=DIGEST,
    )  # fmt: skip
    rollout = held(hold=status)
    rollout["metadata"] |= {"name": "n" * 52, "namespace": "s" * 63}
    records = {each["id"]: CheckRecord(windows=(Window(0, Counts(9, 1)),)) for each in checks}
    judged = run(*checks)
    judged["status"]["verdict"]["nextActions"] = ["kubectl gate more-samples x"]
    lines = review.render(Case(View(rollout, run=judged), None, (), records), NOW)
    assert len(lines) <= 40
    assert len([line for line in lines if "bad/all, newest last: 1/10" in line]) == 5
