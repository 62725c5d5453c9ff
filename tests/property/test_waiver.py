"""A waiver is in force in a half-open interval, and nobody else compares its end with anything."""

import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright_analysis.ledger import Waiver, granted, people
from gatewright_analysis.waiver import waiver_in_force

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2030, 1, 1, tzinfo=UTC)
moments = st.integers(-(10**6), 10**6).map(lambda seconds: START + timedelta(seconds=seconds))


@given(granted_at=moments, expires_at=moments, at=moments)
def test_it_is_in_force_from_its_grant_until_just_before_its_end(
    granted_at: datetime, expires_at: datetime, at: datetime
) -> None:
    assert waiver_in_force(granted_at, expires_at, at) == (granted_at <= at and not expires_at <= at)
    assert not waiver_in_force(granted_at, expires_at, expires_at), "its end is not part of it"
    assert waiver_in_force(granted_at, expires_at, granted_at) == (granted_at < expires_at)


@given(a=moments, b=moments, c=moments, at=moments)
def test_two_that_follow_each_other_are_one(a: datetime, b: datetime, c: datetime, at: datetime) -> None:
    first, middle, last = sorted((a, b, c))
    both = [waiver_in_force(first, middle, at), waiver_in_force(middle, last, at)]
    assert sum(both) == waiver_in_force(first, last, at), "neither a gap nor a moment in both"


def approval(who: str, since: datetime, until: datetime) -> Waiver:
    digest = "sha256:" + "a" * 64
    return Waiver("0123456789", "1", 1, "run-1", digest, who, until, since, review=f"{who}-{since:%s}")


approvals = st.builds(approval, st.sampled_from(["a", "b", "c"]), moments, moments)


@given(given_=st.lists(approvals, max_size=8), needed=st.integers(1, 4), at=moments)
def test_enough_people_and_no_longer_than_the_first_of_them(
    given_: list[Waiver], needed: int, at: datetime
) -> None:
    whole = granted(given_, needed, at)
    who = {w.reviewer for w in given_ if waiver_in_force(w.granted_at, w.expires_at, at)}
    assert (whole is not None) == (len(who) >= needed), "distinct people, each in force"
    assert [w.reviewer for w in people(given_, at)] == list(
        dict.fromkeys(w.reviewer for w in people(given_, at))
    )
    if whole is not None:
        assert waiver_in_force(whole.granted_at, whole.expires_at, at)
        assert all(
            w.granted_at <= whole.granted_at and whole.expires_at <= w.expires_at for w in whole.waivers
        )


def _comparisons(source: str) -> list[int]:
    """Lines on which an expiry is put in order with a moment. The length of a waiver (a difference) is no moment."""
    tree = ast.parse(source)
    found = []
    for scope in [
        tree,
        *(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)),
    ]:
        named = {
            target.id
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign) and "expires" in ast.unparse(node.value)
            for target in ast.walk(node.targets[0])
            if isinstance(target, ast.Name)
        } if not isinstance(scope, ast.Module) else set()  # fmt: skip
        about = not isinstance(scope, ast.Module) and "expir" in scope.name
        for node in ast.walk(scope):
            if not isinstance(node, ast.Compare):
                continue
            if not any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops):
                continue
            sides = [s for s in (node.left, *node.comparators) if not isinstance(s, ast.BinOp | ast.Constant)]
            text = [ast.unparse(side) for side in sides]
            moments_ = [t for t in text if "expir" in t.lower() or t in named or about]
            if moments_ and not any(isinstance(s, ast.BinOp) for s in (node.left, *node.comparators)):
                found.append(node.lineno)
    return sorted(set(found))


def test_no_other_place_compares_an_expiry() -> None:
    guilty = {}
    for part in ("analysis", "operator", "cli"):
        for path in sorted((ROOT / part).rglob("*.py")):
            lines = _comparisons(path.read_text())
            if lines and path.name != "waiver.py":
                guilty[str(path.relative_to(ROOT))] = lines
    assert not guilty, f"ask gatewright_analysis.waiver.waiver_in_force instead: {guilty}"


@pytest.mark.parametrize(
    "source",
    [
        "def f(spec, now):\n    return spec.expires_at <= now",
        "def f(spec, now):\n    return now < datetime.fromisoformat(spec['expiresAt'])",
        "def f(spec, now):\n    ends = spec.expires_at\n    return ends > now",
        "def expiry(moment, now):\n    return moment <= now",
    ],
)
def test_the_search_finds_what_it_looks_for(source: str) -> None:
    assert _comparisons(source)


def test_the_search_leaves_lengths_alone() -> None:
    assert not _comparisons("def f(spec, most):\n    return spec.expires_at - spec.created <= most")
