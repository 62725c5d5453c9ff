"""A real HOLD of a real operator on the review page: the looks are those that the operator judged."""

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster import Instance
from devcluster.install import Operator
from gatewright_cli.output import share
from tests.cluster.releases import Release
from tests.cluster.review_page import Stage
from tests.cluster.support import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]


def assert_same(row: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    """A verdict keeps six digits of what the plot works out again, so the last digit that is shown may differ by one."""
    assert (len(row), row[0], row[-1]) == (len(wanted), wanted[0], wanted[-1])
    shown, kept = ([float(text.removesuffix(" %")) for text in texts[1:-1]] for texts in (row, wanted))
    assert shown == pytest.approx(kept, abs=0.0101)


def test_a_real_hold_is_shown_with_its_plot_and_later_with_who_ended_it(
    cluster: Instance, operator: Operator, namespace: str, as_user: Callable[..., Path], tmp_path: Path
) -> None:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(VERSION="v2", ERROR_RATE="0.045")
        shop.phase("Held")
    stage = Stage(cluster)
    stage.prepare()
    token = stage.viewer(namespace, "viewer", "gatewright-viewer")
    path = f"/holds/{namespace}/checkout"
    hold = shop.status["hold"]
    [check] = [
        each
        for each in shop.get("gateruns.gatewright.dev", hold["run"])["status"]["verdict"]["checks"]
        if each["id"] == "http-success"
    ]
    wanted = (
        str(check["samples"]),
        *(share(check[key], check["threshold"]) for key in ("score", "ciLower", "ciUpper")),
        check["status"],
    )
    with stage.page(tmp_path) as page:

        def last_row() -> tuple[str, ...]:
            shown = page.get(path, token)
            assert shown.status_code == 200, shown.text
            assert '<polyline class="estimate"' in shown.text, shown.text
            [table] = re.findall(r"<caption>Looks of http-success.*?</table>", shown.text, flags=re.DOTALL)
            return tuple(re.findall(r"<td>([^<]*)</td>", table.rpartition("<tr>")[2]))

        assert_same(last_row(), wanted)
        limit = [{"op": "replace", "path": "/spec/failMode", "value": "Hold"}]
        edited = shop.kubectl(
            "patch", "gatecontract", "checkout", "--type=json", "-p", str(limit).replace("'", '"')
        )
        assert edited.ok, edited.err
        # An edited contract is no other verdict: the ledger has the one that judged.
        assert_same(last_row(), wanted)
        answer = shop.review("Reject", who=as_user("reviewer-a", roles=("gatewright-reviewer",)))
        assert answer.ok, answer.err
        shop.phase("RolledBack")

        def over() -> bool:
            said = html.unescape(page.get(path, token).text)
            assert f"checkout in {namespace} is not held now" in said
            return "Reject by reviewer-a" in said and "It is <strong>RolledBack</strong>" in said

        eventually(over, 30, "the page says who ended it")
