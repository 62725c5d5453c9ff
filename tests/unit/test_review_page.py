"""The review page without a browser: what it asks the API server, whom it answers, and what stands in a page."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from gatewright_analysis.backtest.fold import Look
from gatewright_analysis.evidence.packed import decode
from gatewright_analysis.kinds.contract import GateContractSpec
from gatewright_analysis.ledger import EntryKey, Ledger, NewEntry, canonical_contract
from gatewright_analysis.looks import looks_again
from gatewright_analysis.replay import Evidence
from gatewright_analysis.verdict import CheckStatus
from gatewright_cli.errors import GateError, UsageError
from gatewright_cli.server import access, chart, evidence, views
from gatewright_cli.server.cluster import Right, Viewer
from gatewright_cli.server.door import HEADERS
from gatewright_cli.server.explained import may_words
from gatewright_cli.server.rights import KEPT_SECONDS, Kept, reading
from gatewright_cli.server.run import Options, address, run
from gatewright_cli.server.sessions import LIFE_SECONDS, MOST, Seal, Sessions
from tests.browser import chromium_program
from tests.held_release import CONTRACT, HeldRelease, held_release
from tests.unit.page_world import World

NOW = datetime(2030, 5, 1, 12, 0, tzinfo=UTC)
BROWSER = {"Accept": "text/html"}
GOOD = {"Authorization": "Bearer good"}


def world(made: HeldRelease | None = None, **fields: Any) -> World:
    made = made or held_release("shop")
    return World(objects=[made.contract, made.rollout, made.run, made.evidence], **fields)


async def get(asked: World, path: str, **headers: str) -> httpx.Response:
    async with asked.site() as site:
        return await site.get(path, headers=GOOD | headers)


class TestWhoSeesWhat:
    async def test_the_viewers_name_groups_and_extra_are_what_is_asked_about(self) -> None:
        asked = world()
        assert (await get(asked, "/holds/shop/checkout")).status_code == 200
        specs = [body["spec"] for body in asked.reviewed if body["kind"] == "SubjectAccessReview"]
        assert specs
        for spec in specs:
            assert (spec["user"], spec["uid"], spec["groups"]) == ("oncall", "u1", ["oncall"])
            assert spec["extra"] == {"scopes": ["a", "b"]}
        approving = [
            spec["resourceAttributes"] for spec in specs if spec["resourceAttributes"]["verb"] == "approve"
        ]
        assert approving == [
            {"verb": "approve", "group": "gatewright.dev", "resource": "rollouts", "namespace": "shop", "name": "checkout"}
        ]  # fmt: skip

    @pytest.mark.parametrize("missing", [(r.verb, r.resource) for r in reading("shop")])
    async def test_each_of_the_four_rights_is_needed(self, missing: tuple[str, str]) -> None:
        asked = world(may=lambda what: (what["verb"], what["resource"]) != missing)
        assert (await get(asked, "/holds/shop/checkout")).status_code == 404
        queue = await get(asked, "/holds")
        assert (queue.status_code, "shop" in queue.text) == (200, False)

    async def test_nothing_of_a_namespace_is_read_before_the_right_to_it_is_known(self) -> None:
        asked = world(may=lambda _: False)
        assert (await get(asked, "/holds/shop/checkout")).status_code == 404
        assert {method for method, _ in asked.asked} == {"POST"}

    async def test_of_other_namespaces_than_those_chosen_nothing_is_read(self) -> None:
        asked = world(held_release("pay"))
        async with asked.site("shop") as site:
            assert (await site.get("/holds/pay/checkout", headers=GOOD)).status_code == 404
            assert "pay" not in (await site.get("/holds", headers=GOOD)).text
        assert ("GET", "/apis/gatewright.dev/v1alpha1/namespaces/shop/rollouts") in asked.asked
        assert ("GET", "/apis/gatewright.dev/v1alpha1/rollouts") not in asked.asked

    async def test_an_api_server_that_is_down_shows_nothing(self) -> None:
        asked = world(down=True)
        for path in ("/holds", "/holds/shop/checkout"):
            answer = await get(asked, path)
            assert answer.status_code == 503
            assert "The API server does not answer (ConnectError). Try again in a moment." in answer.text
        assert (await get(asked, "/readyz")).status_code == 503
        assert (await get(asked, "/healthz")).status_code == 200

    @pytest.mark.parametrize(
        "header", ["Basic Z29vZA==", "Bearer", "Bearer bad", "good", f"Bearer {'x' * 20_000}"]
    )
    async def test_another_header_than_an_accepted_token_is_401(self, header: str) -> None:
        answer = await get(world(), "/holds", Authorization=header)
        assert (answer.status_code, answer.headers["www-authenticate"][:6]) == (401, "Bearer")

    @pytest.mark.parametrize("path", ["/holds/SHOP/checkout", "/holds/shop/a%2Fb", "/holds/shop/x%00"])
    async def test_what_can_be_no_name_is_asked_of_nobody(self, path: str) -> None:
        asked = world()
        assert (await get(asked, path)).status_code in (404, 303)
        assert not [url for method, url in asked.asked if method == "GET"]

    async def test_every_answer_carries_the_headers_that_allow_nothing(self) -> None:
        for path in ("/holds", "/holds/shop/checkout", "/no", "/healthz", "/page.css"):
            answer = await get(world(), path)
            assert {name: answer.headers[name] for name in HEADERS} == HEADERS


class TestSessions:
    async def sign_in(
        self, site: httpx.AsyncClient, token: str = "good", target: str = "/holds"
    ) -> httpx.Response:
        form = await site.get("/sign-in", params={"next": target})
        seal = re.search(r'name="seal" value="([0-9a-f]{64})"', form.text)
        assert seal is not None
        aim = re.search(r'name="next" value="([^"]*)"', form.text)
        assert aim is not None
        return await site.post("/sign-in", data={"token": token, "seal": seal[1], "next": aim[1]})

    async def test_a_session_shows_pages_until_it_is_signed_out(self) -> None:
        asked = world()
        async with asked.site() as site:
            answer = await self.sign_in(site)
            assert (answer.status_code, answer.headers["location"]) == (303, "/holds")
            assert "good" not in str(answer.headers)
            shown = await site.get("/holds")
            assert "checkout in shop" in shown.text
            seal = re.search(r'name="seal" value="([0-9a-f]{64})"', shown.text)
            assert seal is not None
            assert (await site.post("/sign-out", data={"seal": "0" * 64})).status_code == 403
            assert (await site.get("/holds")).status_code == 200
            cookie = site.cookies["__Host-gatewright"]
            assert (await site.post("/sign-out", data={"seal": seal[1]})).status_code == 303
            assert (await site.get("/holds", headers=BROWSER)).status_code == 303
            site.cookies.set("__Host-gatewright", cookie)
            assert (await site.get("/holds")).status_code == 401, (
                "a cookie that was kept opens a session that ended"
            )

    @pytest.mark.parametrize(
        "target",
        [
            "//evil.example",
            "https://evil.example/",
            "/holds/../x",
            "/sign-out",
            "/holds\r\nX: y",
            "javascript:x",
        ],
    )
    async def test_after_signing_in_one_stays_on_the_page(self, target: str) -> None:
        async with world().site() as site:
            answer = await self.sign_in(site, target=target)
            assert (answer.status_code, answer.headers["location"]) == (303, "/")

    async def test_a_body_without_end_is_no_form(self) -> None:
        async with world().site() as site:
            await site.get("/sign-in")
            answer = await site.post("/sign-in", data={"token": "x" * 100_000})
            assert answer.status_code == 403

    def test_a_session_ends_by_itself(self) -> None:
        now = [0.0]
        sessions = Sessions(lambda: now[0])
        one = sessions.start("token")
        now[0] = LIFE_SECONDS - 1
        assert sessions.token(one) == "token"
        now[0] = LIFE_SECONDS
        assert sessions.token(one) is None

    def test_there_are_no_more_than_fit(self) -> None:
        sessions = Sessions(lambda: 0.0)
        first = sessions.start("first")
        others = [sessions.start(str(k)) for k in range(MOST)]
        assert sessions.token(first) is None
        assert sessions.token(others[-1]) == str(MOST - 1)

    def test_a_seal_fits_its_cookie_alone(self) -> None:
        seal = Seal(b"k")
        assert seal.fits("a", seal.of("a"))
        assert not seal.fits("b", seal.of("a"))
        assert not seal.fits("", seal.of(""))
        assert not seal.fits("a", "ä")
        assert not Seal(b"other").fits("a", seal.of("a"))


async def test_an_answer_is_kept_for_seconds_and_no_longer() -> None:
    now, asked = [0.0], []

    async def ask() -> bool:
        asked.append(now[0])
        return True

    kept: Kept[str, bool] = Kept(lambda: now[0])
    for moment in (0.0, KEPT_SECONDS - 0.1, KEPT_SECONDS, KEPT_SECONDS + 1):
        now[0] = moment
        assert await kept.get("q", ask)
    assert asked == [0.0, KEPT_SECONDS]


class TestEvidence:
    def test_the_looks_end_at_the_verdict(self) -> None:
        made = held_release("shop")
        spec = GateContractSpec.model_validate(CONTRACT)
        for result in made.results:
            looks = looks_again(decode(made.evidence), spec, result.id, Evidence([made.evidence]))
            last = looks[-1]
            assert (len(looks), last.t, last.n, last.status) == (24, 720.0, result.samples, result.status)
            assert last.score == pytest.approx(result.score, abs=1e-6)
            assert last.ci_lower == pytest.approx(result.ci_lower, abs=1e-6)
            assert last.ci_upper == pytest.approx(result.ci_upper, abs=1e-6)
            assert [look.n for look in looks] == [80 * k for k in range(1, 25)]

    def test_a_contract_that_was_edited_since_is_taken_from_the_ledger(self) -> None:
        spec = GateContractSpec.model_validate(CONTRACT)
        digest = canonical_contract(spec).digest
        edited = {"spec": CONTRACT | {"failMode": "Hold"}}
        assert evidence.contract_of(digest, edited, []) is None
        key = EntryKey("u", "0123456789", "", 1, "Contract", digest)
        [entry] = Ledger().append([NewEntry(key, NOW, {"spec": spec.wire()})]).ledger.entries
        found = evidence.contract_of(
            digest, edited, [{"data": {"00000000": entry.text, "junk": f"{{{digest}"}}]
        )
        assert found == spec
        forged = entry.text.replace('"maxBadRatio":0.01', '"maxBadRatio":0.5')
        assert forged != entry.text
        assert evidence.contract_of(digest, None, [{"data": {"00000000": forged}}]) is None

    async def test_evidence_that_was_changed_draws_nothing(self) -> None:
        made = held_release("shop")
        other = held_release("shop", "other")
        made.evidence["binaryData"] = other.evidence["binaryData"]
        shown = (await get(world(made), "/holds/shop/checkout")).text
        assert "<svg" not in shown
        assert f"Digest mismatch: ConfigMap {made.evidence['metadata']['name']} says sha256:" in shown

    async def test_a_hold_without_a_run_or_evidence_says_so(self) -> None:
        made = held_release("shop")
        shown = (await get(World(objects=[made.rollout]), "/holds/shop/checkout")).text
        assert "No single check: there is no gate run to read." in shown
        name = made.evidence["metadata"]["name"]
        assert f"The evidence can&#39;t be read: there is no ConfigMap {name}." in shown
        without = (await get(World(objects=[made.rollout, made.run]), "/holds/shop/checkout")).text
        assert f"The evidence can&#39;t be read: there is no ConfigMap {name}." in without


class TestChart:
    def look(self, k: int, **fields: Any) -> Look:
        base = Look(30.0 * k, "x", 10 * k, 0.9, 0.8, 0.95, 0.85, None, None, CheckStatus.PENDING)
        return base._replace(**fields)

    def test_many_looks_are_thinned_in_the_table_and_the_last_is_kept(self) -> None:
        drawn = chart.chart("x", [self.look(k) for k in range(1, 1001)])
        assert len(drawn.rows) <= 24
        assert drawn.rows[-1][1] == "10000"
        assert drawn.left_out == 1000 - len(drawn.rows)

    def test_one_look_is_a_point(self) -> None:
        assert '<circle class="estimate"' in chart.chart("x", [self.look(1)]).svg

    def test_a_gauge_is_drawn_by_its_readings(self) -> None:
        drawn = chart.chart("x", [self.look(k, value=float(k), score=None) for k in (1, 2, 3)])
        assert drawn.gauge
        assert drawn.described == "3 looks in 1m30s: readings from 1 to 3, the last 3."
        assert drawn.rows[-1] == ("1m30s", "3", "pending")

    def test_looks_that_prove_nothing_are_a_picture_all_the_same(self) -> None:
        drawn = chart.chart("x", [self.look(1, n=0, score=None, ci_lower=None, ci_upper=None)])
        assert "nothing is proven" in drawn.described
        assert "nan" not in drawn.svg and "inf" not in drawn.svg

    def test_a_name_is_escaped(self) -> None:
        assert "<script>" not in chart.chart("<script>", [self.look(1)]).svg


class TestWords:
    def facts(self, **hold: Any) -> dict[str, str]:
        row = views.row(held_release("shop", now=NOW, **hold).rollout, True, "oncall", NOW)
        return {fact.title: fact.text for fact in row.facts}

    def test_a_row_says_since_when_until_when_and_who(self) -> None:
        assert self.facts() == {
            "Held": "2h ago",
            "Escalation": "in 20m",
            "Wait ends": "in 22h",
            "Approvals": "1 of 2: reviewer-b",
            "Step": "step 2 of 4",
            "Started by": "dev-1",
            "May you approve": "yes",
        }

    def test_what_was_escalated_is_said_instead_of_when_it_will_be(self) -> None:
        at = (NOW - timedelta(minutes=5)).isoformat()
        facts = self.facts(escalatedAt=at)
        assert facts["Escalated"] == "5m ago"
        assert "Escalation" not in facts

    def test_a_stopped_clock_is_said_with_its_source(self) -> None:
        at = (NOW - timedelta(minutes=3)).isoformat()
        facts = self.facts(clockStoppedSince=at, clockStoppedBy="prometheus does not answer")
        assert facts["Clock stopped"] == "3m ago, by prometheus does not answer"

    def test_one_approval_that_is_enough_is_no_line(self) -> None:
        assert "Approvals" not in self.facts(approvalsNeeded=1, approvals=[])

    @pytest.mark.parametrize(
        "name", ["", "system:serviceaccount:ci:deployer", "system:kube-controller-manager"]
    )
    def test_a_controller_is_nobody_proven(self, name: str) -> None:
        assert self.facts(initiator=name)["Started by"] == "unproven"

    @pytest.mark.parametrize(
        ("may", "viewer", "contract", "words"),
        [
            (True, "oncall", None, "yes"),
            (False, "oncall", None, "no: the verb approve is missing"),
            (True, "dev-1", None, "no: you started it"),
            (True, "reviewer-b", None, "no: you have approved"),
            (True, "system:serviceaccount:a:b", None, "only if the contract lists this service account"),
            (True, "system:serviceaccount:a:b", {"spec": {}}, "no: the contract does not list this service account"),
            (True, "system:serviceaccount:a:b", {"spec": {"hold": {"serviceAccounts": ["system:serviceaccount:a:b"]}}}, "yes"),
        ],
    )  # fmt: skip
    def test_whether_one_may_approve(self, may: bool, viewer: str, contract: Any, words: str) -> None:
        assert may_words(held_release("shop").rollout, may, viewer, contract) == words

    async def test_the_writer_of_the_contract_who_started_the_change_is_disclosed(self) -> None:
        made = held_release("shop", contractWrittenBy="dev-1", initiator="dev-1")
        shown = (await get(world(made), "/holds/shop/checkout")).text
        assert "dev-1, proven; the same person wrote the contract last" in shown

    def test_the_link_is_the_one_that_notifications_give(self) -> None:
        assert views.href("shop", "checkout") == "/holds/shop/checkout"


class TestStart:
    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("127.0.0.1:8443", ("127.0.0.1", 8443)),
            ("[::1]:0", ("::1", 0)),
            (":80", ("0.0.0.0", 80)),
        ],
    )
    def test_where_to_listen(self, text: str, found: tuple[str, int]) -> None:
        assert address(text) == found

    @pytest.mark.parametrize("text", ["8443", "host:", "host:x", "host:70000", "host:١"])
    def test_where_nobody_can_listen(self, text: str) -> None:
        with pytest.raises(UsageError, match="ADDRESS:PORT"):
            address(text)

    @pytest.mark.parametrize(
        ("user", "server", "sentence"),
        [
            ("exec: {command: login}", "https://api", "runs a login command"),
            ("token: x", "http://api", "over https only"),
        ],
    )
    def test_a_kubeconfig_that_cannot_serve_is_refused(
        self, tmp_path: Path, user: str, server: str, sentence: str
    ) -> None:
        file = tmp_path / "config"
        file.write_text(
            "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
            f"clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
        )
        with pytest.raises(GateError, match=sentence):
            access.of_kubeconfig(str(file))

    def options(self, cert: str | None, key: str | None) -> Options:
        return Options("no-such-file", "127.0.0.1:0", cert, key, ())

    def test_a_certificate_that_cannot_serve_is_refused_before_anything_listens(self, tmp_path: Path) -> None:
        (tmp_path / "junk").write_text("junk")
        junk, missing = str(tmp_path / "junk"), str(tmp_path / "missing")
        with pytest.raises(UsageError, match="go together"):
            run(self.options(junk, None))
        with pytest.raises(GateError, match=r"There is no file .*missing"):
            run(self.options(junk, missing))
        with pytest.raises(GateError, match="are no certificate with its key"):
            run(self.options(junk, junk))
        with pytest.raises(GateError, match="The kubeconfig no-such-file can't be read"):
            run(self.options(None, None))

    def test_without_a_browser_its_tests_fail_and_say_how_to_get_one(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(AssertionError, match="apt-get install chromium"):
            chromium_program()

    def test_outside_a_pod_a_kubeconfig_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        with pytest.raises(GateError, match="give --kubeconfig FILE"):
            access.of_pod()


def test_a_viewer_and_a_right_can_be_kept_by() -> None:
    """Both are keys of what is kept: two people with one name and other groups are two."""
    assert len({Viewer("a"), Viewer("a", groups=("g",)), Viewer("a", extra=(("k", ("v",)),))}) == 3
    assert Right("get", "rollouts", "a") != Right("get", "rollouts", "b")
