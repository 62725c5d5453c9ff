"""The table of checks, as `status` and `review` show it. Pure."""

from collections.abc import Sequence

from gatewright_cli.kube import Object
from gatewright_cli.output import PLAIN, Style, clean, share, shorten, table
from gatewright_cli.view import good_ratio

LOOKS = {
    "pass": ("✓", "green"),
    "waived": ("✓", "cyan"),
    "fail": ("✗", "red"),
    "below_threshold": ("!", "yellow"),
    "inconclusive": ("?", "yellow"),
    "error": ("?", "yellow"),
    "pending": ("…", "dim"),
    "not_proven": ("-", "dim"),
}
HEADER = ("CHECK", "STATUS", "GOOD", "PROVEN", "THRESHOLD", "N/PLANNED", "REASON")


def check_table(
    checks: Sequence[Object], style: Style = PLAIN, indent: str = "  ", columns: int | None = None
) -> list[str]:
    """One line a check: GOOD is the estimate, PROVEN its bounds, THRESHOLD what the lower one must reach."""
    rows = [[style.paint(title, "dim") for title in HEADER]]
    for check in checks:
        status = str(check.get("status", ""))
        mark, look = LOOKS.get(status, (" ", ""))
        threshold = check.get("threshold")
        ratio = good_ratio(check)
        rows.append(
            [
                style.paint(f"{mark} {shorten(str(check.get('id', '')), 24)}", look),
                style.paint(clean(status) or "–", look),
                share(ratio, threshold) if ratio is not None else _fact(check),
                bounds(check),
                share(threshold),
                samples(check),
                clean(check.get("reason", "")),
            ]
        )
    return table(rows, indent, columns=columns)


def bounds(check: Object) -> str:
    """`98.9–99.8 %`, either end open where it is not proven."""
    lower, upper, threshold = (check.get(key) for key in ("ciLower", "ciUpper", "threshold"))
    if lower is None and upper is None:
        return "–"
    if upper is None:
        return f"≥ {share(lower, threshold)}"
    if lower is None:
        return f"≤ {share(upper, threshold)}"
    return f"{share(lower, threshold).removesuffix(' %')}–{share(upper, threshold)}"


def samples(check: Object) -> str:
    """`812/1038`: seen and planned."""
    count = check.get("samples") or 0
    planned = check.get("planned")
    return f"{count}/{planned}" if planned else f"{count}"


def _fact(check: Object) -> str:
    """What stands for the ratio of a check that has none: restarts of pods, or a gauge's newest value."""
    statistics = check.get("statistics") or {}
    restarts, value = statistics.get("restarts"), statistics.get("value")
    if value is not None:
        return f"value {value:g}"
    return "–" if restarts is None else f"{restarts} restarts"
