"""`kubectl gate explain ROLLOUT/CHECK`: what a check of the contract means, and what it said lately."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gatewright_analysis.names import ROLLOUT_LABEL
from gatewright_cli.checks import bounds, samples
from gatewright_cli.errors import Exit, GateError, NotFound, UsageError
from gatewright_cli.formats import Output, show
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.output import PLAIN, WIDTH, Style, ago, clean, fold, print_lines, share, shorten, table
from gatewright_cli.view import checks_of, good_ratio, step_word

RUNS_READ = 100
RESULTS_SHOWN = 5


@dataclass(frozen=True)
class Case:
    """A check with its contract, the Rollout, the results that it gave (newest first), and what it is planned for."""

    rollout: Object
    contract: Object
    check: Object
    results: tuple[tuple[Object, Object], ...]
    """(GateRun, result of this check), decided runs only."""
    planned: Object | None = None
    """`nMin`, `planned`, `power`, `threshold`; None where the contract can't be planned."""


def split(text: str) -> tuple[str, str]:
    """`checkout/http-success` → (Rollout, check). Raises UsageError."""
    rollout, slash, check = text.rpartition("/")
    if not slash or not rollout or not check:
        raise UsageError(
            f"{text!r} names no check: write ROLLOUT/CHECK, such as checkout/http-success.",
            then="kubectl gate explain --help" if slash else f"kubectl gate status {text}",
        )
    return rollout, check


def run(kube: Kube, name: str, check: str, *, output: Output) -> Exit:
    case = read(kube, name, check)
    if output.for_programs:
        show(as_json(case), output)
    else:
        print_lines(render(case, datetime.now(UTC), Style.of(sys.stdout)))
    return Exit.OK


def read(kube: Kube, name: str, check_id: str) -> Case:
    """Raises NotFound for a check that the contract does not have; it says which it has."""
    rollout = kube.rollout(name)
    namespace = rollout["metadata"]["namespace"]
    named = rollout["spec"]["contractRef"]["name"]
    contract, runs = kube.get_all(
        [
            path("gatecontracts", namespace, named),
            path("gateruns", namespace, query=f"labelSelector={ROLLOUT_LABEL}%3D{name}&limit={RUNS_READ}"),
        ]
    )
    if isinstance(contract, NotFound):
        raise NotFound(
            f"The GateContract {named} of Rollout {name} does not exist.",
            then=f"kubectl get gatecontracts.gatewright.dev -n {namespace}{kube.flags.repeated}",
        )
    if isinstance(contract, GateError):
        raise contract
    checks = {each["id"]: each for each in contract["spec"].get("checks") or []}
    if check_id not in checks:
        raise NotFound(
            f"The contract {named} of Rollout {name} has no check {check_id}; it has {', '.join(sorted(checks))}.",
            then=f"kubectl gate explain {name}/{next(iter(sorted(checks)), 'CHECK')} -n {namespace}{kube.flags.repeated}",
        )
    listed: list[Object] = [] if isinstance(runs, GateError) else runs.get("items", [])
    return Case(
        rollout, contract, checks[check_id], results_of(listed, check_id), planned(contract, check_id)
    )


def results_of(runs: Sequence[Object], check_id: str) -> tuple[tuple[Object, Object], ...]:
    """What decided runs found of this check, newest first."""
    found = [(run, result) for run in runs for result in checks_of(run) if result.get("id") == check_id]
    return tuple(sorted(found, key=lambda pair: finished(pair[0]), reverse=True))


def finished(run: Object) -> str:
    status = run.get("status") or {}
    return str((status.get("breach") or status.get("verdict") or {}).get("finishedAt") or "")


def planned(contract: Object, check_id: str) -> Object | None:
    """The samples that it takes, as `gatewright plan` says them without a rate."""
    # Brings in the kinds and the statistics, which no other command of the plugin needs.
    from gatewright_analysis.manifests import UnreadableManifest, contract_of
    from gatewright_analysis.planning.plan import plan_contract

    try:
        found = plan_contract(contract_of({"kind": "GateContract", **contract}), None, {}).wire()
    except UnreadableManifest:
        return None
    plans: list[Object] = [
        each for gate in found["gates"] for each in gate["checks"] if each["check"] == check_id
    ]
    return next((each for each in plans if each["planned"] is not None), None)


def as_json(case: Case) -> dict[str, Any]:
    meta = case.contract["metadata"]
    return {
        "rollout": case.rollout["metadata"]["name"],
        "namespace": case.rollout["metadata"]["namespace"],
        "contract": {"name": meta["name"], "generation": meta.get("generation")},
        "check": case.check,
        "onBreach": on_breach(case),
        "planned": case.planned,
        "results": [
            {
                "run": run["metadata"]["name"],
                "revision": run["spec"].get("revision"),
                "step": run["spec"].get("step"),
                "attempt": run["spec"].get("attempt"),
                "at": finished(run) or None,
                "contractGeneration": run["spec"].get("contractGeneration"),
                "result": result,
            }
            for run, result in case.results
        ],
    }


def on_breach(case: Case) -> str:
    """What a proven breach does: Rollback or Hold."""
    if case.check.get("oracleKind") == "Sampled":
        return "Hold"
    return str(case.check.get("onBreach") or case.contract["spec"].get("failMode") or "Rollback")


def render(case: Case, now: datetime, style: Style = PLAIN) -> list[str]:
    check, meta = case.check, case.rollout["metadata"]
    contract = case.contract["metadata"]
    title = f": {clean(check['title'])}" if check.get("title") else ""
    lines = [f"{style.paint(check['id'], 'bold')} of {meta['name']} in {meta['namespace']}{title}", ""]
    facts = [
        ("contract", f"{contract['name']}@{contract.get('generation', '?')}{_pinned_elsewhere(case)}"),
        ("asks for", limit_of(check)),
        ("compares", versus_stable_of(check)),
        ("judged as", judged_as(check)),
        ("for a pass", required(check)),
        ("confidence", confidence(check)),
        ("samples", samples_of(case)),
        ("on a breach", breach_of(case)),
        ("hint", clean(check.get("fixHint", ""))),
    ]
    for name, text in facts:
        lines += _fact(name, text, style) if text else []
    for entry in check.get("evidence") or []:
        lines += _fact("evidence", ", ".join(entry.get("stages") or []) + ": " + evidence_of(entry), style)
        lines += [f"               {line}" for line in queries_of(entry)]
    return [*lines, "", *_results(case, now, style)]


def _fact(name: str, text: str, style: Style) -> list[str]:
    first, *rest = fold(text, "", columns=WIDTH - 15)
    return [f"  {style.paint(name.ljust(11), 'dim')}  {first}", *(f"{' ' * 15}{line}" for line in rest)]


def _pinned_elsewhere(case: Case) -> str:
    """An attempt keeps the contract that it began with."""
    generation = case.contract["metadata"].get("generation")
    on_the_way = (case.rollout.get("status") or {}).get("canary")
    pinned = case.results[0][0]["spec"].get("contractGeneration") if case.results else None
    if not on_the_way or pinned is None or pinned == generation:
        return ""
    return f"; the release on its way is judged by @{pinned}, as an attempt keeps the contract it began with"


def limit_of(check: Object) -> str:
    limit = check.get("limit") or {}
    if "maxBadRatio" in limit:
        bad = limit["maxBadRatio"]
        return f"at most {share(bad)} bad, so at least {share(1 - bad)} good"
    if "minGoodRatio" in limit:
        return f"at least {share(limit['minGoodRatio'])} good"
    return "; ".join(filter(None, map(own_limit, check.get("evidence") or []))) or "no limit of its own"


def own_limit(entry: Object) -> str:
    """The limit that evidence brings along."""
    if value := entry.get("value"):
        ends = [
            f"at least {value['min']:g}" if "min" in value else "",
            f"at most {value['max']:g}" if "max" in value else "",
        ]
        return "a value of " + " and ".join(filter(None, ends))
    if burn := entry.get("burnRate"):
        bad = burn["maxBurn"] * (1 - burn["objective"])
        return f"a burn rate of at most {burn['maxBurn']:g} against {share(burn['objective'])}: at most {share(bad)} bad"
    if "pods" in entry:
        return f"pods that stay ready, with at most {(entry['pods'] or {}).get('maxRestarts', 0)} restarts"
    if entry.get("job", {}).get("report") == "ExitCode":
        return "a Job that ends with exit code 0"
    return "more wins than losses against stable" if entry.get("paired") else ""


def versus_stable_of(check: Object) -> str:
    versus = check.get("versusStable")
    if not versus:
        return ""
    increase = versus.get("minIncrease")
    least = "a tenth of the limit" if increase is None else share(increase)
    return f"also a breach: more than {versus.get('maxRatio', 1.25):g} × stable's bad share, and at least {least} above it"


def judged_as(check: Object) -> str:
    if check.get("oracleKind") == "Sampled":
        return "Sampled: a judge's word, or a sample; it can hold a release and never roll it back"
    return "Deterministic: each event falls under a fixed rule"


def required(check: Object) -> str:
    return {
        "Pass": "Pass: must be proven on enough samples",
        "NoBreach": "NoBreach: enough traffic and no breach; need not be proven",
        "Advisory": "Advisory: shown, changes nothing",
    }.get(str(check.get("require") or "Pass"), "")


def confidence(check: Object) -> str:
    level = check.get("confidence", 0.95)
    said = f"{share(level)}: a version at its threshold or below passes with a probability below {share(1 - level)}"
    if spending := check.get("spending"):
        return f"{said}; {spending['looks']} looks by {spending['function']}"
    if check.get("pool") == "Rollout":
        return f"{said}; the steps of a rollout are added up"
    return said


def samples_of(case: Case) -> str:
    plan = case.planned
    if plan is None:
        return ""
    power = plan.get("power")
    chance = "" if power is None else f", where a version half-way to perfect passes with {share(power)}"
    return f"{plan['planned']:,} planned{chance}; nothing passes below {plan['nMin']:,}"


def breach_of(case: Case) -> str:
    if str(case.check.get("require")) == "Advisory":
        return "nothing: it is Advisory"
    if on_breach(case) == "Rollback":
        return "Rollback: all traffic goes back to stable, an approval or not"
    return "Hold: the release stops where it is and waits for a person"


def evidence_of(entry: Object) -> str:
    kind = next((each for each in entry if each != "stages"), "")
    body = entry.get(kind) or {}
    where = f" from the MetricSource {body['source']}" if body.get("source") else ""
    match kind:
        case "counts":
            return f"bad and all events{where}"
        case "latency":
            return f"the share of requests within {body['le']:g} s{where}"
        case "burnRate":
            return f"bad and all events against an error budget{where}"
        case "value":
            return f"a gauge{where}; the newest {body.get('minWindows', 10)} readings must all be inside"
        case "job":
            return f"the CronJob {body.get('cronJob')}, run once for each gate"
        case "pods":
            return "the canary's own pods"
        case _:
            suite = f", suite {body['suite']}" if body.get("suite") else ""
            return f"{kind}{where}{suite}"


def queries_of(entry: Object) -> Iterator[str]:
    """The selectors as they are written; the operator adds the matchers of the arm."""
    for body in (each for each in entry.values() if isinstance(each, dict)):
        for key in ("bad", "passed", "total", "histogram", "query"):
            written = body.get(key)
            for selector in [written] if isinstance(written, str) else written or []:
                yield f"{key.ljust(9)}  {shorten(selector, WIDTH)}"


def _results(case: Case, now: datetime, style: Style) -> list[str]:
    if not case.results:
        return ["It has not judged anything yet."]
    titles = ("WHEN", "REVISION", "STEP", "STATUS", "GOOD", "PROVEN", "N/PLANNED", "REASON")
    rows = [[style.paint(title, "dim") for title in titles]]
    steps = case.rollout["spec"].get("steps") or []
    for run, result in case.results[:RESULTS_SHOWN]:
        rows.append(
            [
                ago(finished(run), now),
                str(run["spec"].get("revision", "")),
                step_word(steps, run["spec"].get("step", "")).removeprefix("step "),
                clean(result.get("status", "")),
                share(good_ratio(result), result.get("threshold")),
                bounds(result),
                samples(result),
                clean(result.get("reason", "")),
            ]
        )
    newest = clean(case.results[0][1].get("message", ""))
    return [
        style.paint("Its last results", "bold"),
        *table(rows, "  "),
        *(fold(newest, lines=3) if newest else []),
    ]
