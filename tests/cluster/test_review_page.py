"""The review page in a real browser, with a real API server behind it: who sees what, and that it only shows."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

from devcluster import Instance
from tests.browser import chromium
from tests.cluster.review_page import ACCOUNT, Page, Stage, rendered
from tests.cluster.support import eventually, kubectl, kubectl_program

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1100, "height": 900}


@pytest.fixture(scope="module")
def stage(api_only: Instance) -> Stage:
    made = Stage(api_only)
    made.prepare()
    return made


@pytest.fixture(scope="module")
def page(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with stage.page(tmp_path_factory.mktemp("page")) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    """A fresh browser context: no cookies, and what a person at a desk sees."""
    context = browser.new_context(ignore_https_errors=True, viewport=DESKTOP)
    yield context.new_page()
    context.close()


def sign_in(tab: Tab, page: Page, token: str, path: str = "/holds") -> None:
    tab.goto(page.base + path)
    tab.get_by_label("Token that the API server accepts").fill(token)
    tab.get_by_role("button", name="Sign in").click()
    expect(tab.get_by_text("Signed in as")).to_be_visible()


def test_the_queue_shows_only_what_the_viewer_may_read(stage: Stage, page: Page, tab: Tab) -> None:
    stage.held("q-shop")
    stage.held("q-pay", "ledger-api")
    sign_in(tab, page, stage.viewer("q-shop", "viewer", "gatewright-viewer"))
    expect(tab.get_by_role("heading", level=1)).to_have_text("What waits for a person")
    expect(tab.get_by_role("listitem")).to_have_count(1)
    expect(tab.get_by_role("link", name="checkout in q-shop")).to_be_visible()
    article = tab.get_by_role("article").inner_text()
    assert "BelowThreshold: http-success: 0.573 % of 1,920 requests were bad" in article
    assert re.search(r"Approvals\s+1 of 2: reviewer-b", article)
    assert re.search(r"Held\s+2h(1m)? ago", article)
    assert re.search(r"Escalation\s+in (19|20)m", article)
    assert re.search(r"Wait ends\s+in 21h5\dm", article)
    assert re.search(r"Started by\s+dev-1", article)
    assert re.search(r"May you approve\s+no", article)
    assert "q-pay" not in tab.content()


def test_a_link_to_a_hold_leads_there_through_the_sign_in(stage: Stage, page: Page, tab: Tab) -> None:
    stage.held("deep")
    sign_in(tab, page, stage.viewer("deep", "viewer", "gatewright-viewer"), "/holds/deep/checkout")
    assert tab.url == f"{page.base}/holds/deep/checkout"
    expect(tab.get_by_role("heading", level=1)).to_have_text("checkout in deep: held")
    [cookie] = tab.context.cookies()
    assert cookie["name"] == "__Host-gatewright"
    assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
    tab.get_by_role("button", name="Sign out").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("Sign in with a token")
    assert tab.context.cookies()[0]["name"] == "__Host-gatewright-form"
    kept = [f"{cookie['name']}={cookie['value']}"]
    again = page.get("/holds", headers={"Cookie": kept[0], "Accept": "text/html"})
    assert (again.status_code, again.headers["location"]) == (303, "/sign-in?next=/holds")


def test_a_link_on_another_site_finds_who_is_signed_in(stage: Stage, page: Page, tab: Tab) -> None:
    """As from a chat in the browser: the cookie is Strict, so the first request comes without it."""
    stage.held("chat")
    sign_in(tab, page, stage.viewer("chat", "viewer", "gatewright-viewer"))
    other = page.base.replace("127.0.0.1", "localhost")
    link = f"{page.base}/holds/chat/checkout"
    tab.route(
        f"{other}/chat",
        lambda route: route.fulfill(body=f'<a href="{link}">held</a>', content_type="text/html"),
    )
    tab.goto(f"{other}/chat")
    tab.get_by_role("link", name="held").click()
    expect(tab.get_by_role("heading", level=1)).to_have_text("checkout in chat: held")


def test_a_token_that_is_not_accepted_opens_nothing(page: Page, tab: Tab) -> None:
    tab.goto(f"{page.base}/holds")
    tab.get_by_label("Token that the API server accepts").fill("not-a-token")
    tab.get_by_role("button", name="Sign in").click()
    expect(tab.get_by_role("alert")).to_have_text(
        "The API server does not accept this token: it may have ended, or be of another cluster."
    )
    assert [cookie["name"] for cookie in tab.context.cookies()] == ["__Host-gatewright-form"]
    answer = page.get("/holds", "not-a-token")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_form_that_was_not_sent_from_the_page_signs_nobody_in_or_out(stage: Stage, page: Page) -> None:
    token = stage.viewer("forms", "viewer", "gatewright-viewer")
    for headers in ({}, {"Sec-Fetch-Site": "cross-site"}):
        answer = page.get("/sign-in", method="POST", data={"token": token, "next": "/holds"}, headers=headers)
        assert answer.status_code == 403
        assert "__Host-gatewright=" not in str(answer.headers.get_list("set-cookie"))
    assert page.get("/sign-out", method="POST").status_code == 403


def test_the_plot_ends_at_the_numbers_of_the_verdict(stage: Stage, page: Page, tab: Tab) -> None:
    held = stage.held("plots")
    result = next(one for one in held.results if one.id == "http-success")
    sign_in(tab, page, stage.viewer("plots", "viewer", "gatewright-viewer"), "/holds/plots/checkout")
    blocks = tab.get_by_role("region", name="What blocks")
    expect(
        blocks.get_by_role("img", name="http-success: estimate against bounds over the looks")
    ).to_be_visible()
    assert blocks.locator("svg polyline.estimate").count() == 1
    drawn = blocks.locator("svg polyline.estimate").get_attribute("points")
    assert drawn is not None and len(drawn.split()) == 24
    tab.get_by_text("Numbers of http-success as a table").click()
    table = tab.get_by_role("table", name="Looks of http-success")
    assert table.get_by_role("columnheader").all_inner_texts() == [
        "After", "Samples", "Good", "Lower bound", "Upper bound", "Status",
    ]  # fmt: skip
    last = table.get_by_role("row").last.locator("th, td").all_inner_texts()
    assert result.score is not None and result.ci_lower is not None and result.ci_upper is not None
    assert last == ["12m", "1920", "99.43 %", "98.98 %", "99.68 %", "below_threshold"]
    assert (round(result.score, 4), round(result.ci_lower, 4), round(result.ci_upper, 4)) == (
        0.9943,
        0.9898,
        0.9968,
    )


def test_the_commands_are_those_of_the_plugin(stage: Stage, page: Page, tab: Tab) -> None:
    stage.held("commands")
    done = subprocess.run(
        [
            Path(sys.executable).with_name("kubectl-gate"),
            "review",
            "checkout",
            "-n",
            "commands",
            "-o",
            "json",
        ],
        env={**os.environ, "KUBECONFIG": str(stage.cluster.kubeconfig), "KUBECTL": str(kubectl_program())},
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = json.loads(done.stdout)["nextActions"]
    assert len(wanted) >= 3
    sign_in(tab, page, stage.viewer("commands", "viewer", "gatewright-viewer"), "/holds/commands/checkout")
    assert tab.get_by_role("region", name="Decide").locator("code").all_inner_texts() == wanted


def test_the_page_says_who_may_approve(stage: Stage, page: Page) -> None:
    reviewer = stage.viewer("may", "reviewer", "gatewright-reviewer")
    me = "system:serviceaccount:may:reviewer"
    stage.held("may")
    stage.held("may", "mine", initiator=me)
    viewer = stage.viewer("may", "viewer", "gatewright-viewer")

    def words(name: str, token: str) -> str:
        found = re.search(
            r"May you approve: <strong>([^<]*)</strong>", page.get(f"/holds/may/{name}", token).text
        )
        assert found is not None
        return found[1]

    assert words("checkout", viewer) == "no: the verb approve is missing"
    assert words("checkout", reviewer) == "no: the contract does not list this service account"
    assert words("mine", reviewer) == "no: you started it"


HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"</title>&amp;"
)


def test_what_others_wrote_is_text_and_never_runs(stage: Stage, page: Page, tab: Tab) -> None:
    held = stage.held("hostile", message=HOSTILE, initiator=HOSTILE, note=HOSTILE, contractWrittenBy=HOSTILE)
    status = held.run["status"]
    for check in status["verdict"]["checks"]:
        check.update(message=HOSTILE, fixHint=HOSTILE)
    stage.status("hostile", "gateruns", held.run["metadata"]["name"], status)
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    sign_in(tab, page, stage.viewer("hostile", "viewer", "gatewright-viewer"), "/holds")
    expect(tab.get_by_role("article")).to_contain_text(HOSTILE[:60])
    tab.get_by_role("link", name="checkout in hostile").click()
    expect(tab.get_by_text(HOSTILE).first).to_be_visible()
    assert tab.title() == "checkout in hostile is held · Gatewright"
    assert tab.locator("script").count() == 0
    assert tab.locator("img[src]").count() == 0
    assert {url for url in asked if not url.startswith(f"{page.base}/")} == set()
    csp = page.get("/healthz").headers["content-security-policy"]
    assert "default-src 'none'" in csp and "script-src" not in csp and "unsafe" not in csp


def test_a_namespace_that_the_viewer_may_not_read_answers_like_one_that_is_not_there(
    stage: Stage, page: Page
) -> None:
    stage.held("secret-shop")
    token = stage.viewer("outside", "viewer", "gatewright-viewer")

    def seen(path: str) -> tuple[int, str]:
        answer = page.get(path, token)
        return answer.status_code, re.sub(r"<time>[^<]*</time>", "", answer.text)

    hidden = seen("/holds/secret-shop/checkout")
    assert hidden[0] == 404
    assert hidden == seen("/holds/no-such-namespace/checkout") == seen("/holds/outside/no-such-rollout")
    assert seen("/holds/..%2f..%2fapi/v1")[0] == 404
    assert "secret-shop" not in page.get("/holds", token).text


def test_a_right_that_is_taken_away_ends_within_seconds(stage: Stage, page: Page) -> None:
    stage.held("revoked")
    token = stage.viewer("revoked", "viewer", "gatewright-viewer")
    assert page.get("/holds/revoked/checkout", token).status_code == 200
    kubectl(["delete", "rolebindings", "--all", "-n", "revoked"], stage.cluster.kubeconfig, check=True)
    eventually(
        lambda: page.get("/holds/revoked/checkout", token).status_code == 404, 30, "the viewer is shut out"
    )


def test_without_the_right_to_configmaps_there_is_no_plot(stage: Stage, page: Page) -> None:
    stage.held("no-maps")
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "holds-only"},
            "rules": [{"apiGroups": ["gatewright.dev"], "resources": ["rollouts", "gateruns"], "verbs": ["get", "list"]}]}  # fmt: skip
    kubectl(["apply", "-f", "-"], stage.cluster.kubeconfig, manifest=role, check=True)
    shown = page.get("/holds/no-maps/checkout", stage.viewer("no-maps", "viewer", "holds-only"))
    assert shown.status_code == 200
    assert "you may not list ConfigMaps in no-maps" in shown.text
    assert "<svg" not in shown.text
    assert "48h at most" not in shown.text, "the contract is nothing that this viewer may read"


def test_a_hold_that_is_over_says_what_it_is_now_and_who_decided(stage: Stage, page: Page, tab: Tab) -> None:
    held = stage.held("over")
    spec = {
        "rollout": "checkout", "rolloutUID": "uid-1", "run": held.run["metadata"]["name"], "revision": "3f2a9c1d0e",
        "step": "1", "evidenceDigest": held.rollout["status"]["hold"]["evidenceDigest"], "decision": "Reject",
        "reviewer": "reviewer-b", "groups": [], "reason": "error rate is too close",
    }  # fmt: skip
    review = {"apiVersion": "gatewright.dev/v1alpha1", "kind": "GateReview",
              "metadata": {"name": "no", "namespace": "over"}, "spec": spec}  # fmt: skip
    kubectl(["create", "-f", "-"], stage.cluster.kubeconfig, manifest=review, check=True)
    stage.status("over", "gatereviews", "no", {"outcome": "Accepted", "message": "All traffic goes back."})
    gone = {"phase": "RolledBack", "message": "Rolled back: reviewer-b rejected it.", "hold": None}
    stage.status("over", "rollouts", "checkout", gone)
    token = stage.viewer("over", "viewer", "gatewright-viewer")
    sign_in(tab, page, token, "/holds/over/checkout")
    expect(tab.get_by_role("heading", level=1)).to_have_text("checkout in over is not held now")
    main = tab.get_by_role("main")
    expect(main).to_contain_text("It is RolledBack: Rolled back: reviewer-b rejected it.")
    expect(main.get_by_role("heading", level=3)).to_contain_text("Reject by reviewer-b")
    expect(main).to_contain_text("Accepted: All traffic goes back.")
    expect(main).to_contain_text("Reason: error rate is too close")
    assert page.get("/holds/over/checkout", token).status_code == 200


def test_the_keyboard_alone_leads_from_the_queue_to_the_commands(stage: Stage, page: Page, tab: Tab) -> None:
    stage.held("keys")
    sign_in(tab, page, stage.viewer("keys", "viewer", "gatewright-viewer"))
    tab.reload()
    visited = []
    for _ in range(4):
        tab.keyboard.press("Tab")
        visited.append(tab.evaluate("document.activeElement.textContent"))
        outline = tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", f"nobody sees that {visited[-1]} has the focus"
        box = tab.locator(":focus").bounding_box()
        assert box is not None and box["x"] >= 0 and box["y"] >= 0, (
            f"{visited[-1]} has the focus outside the screen"
        )
    assert visited == ["Skip to the content", "Gatewright holds", "Sign out", "checkout in keys"]
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("heading", level=1)).to_have_text("checkout in keys: held")
    for _ in range(4):
        tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "To the commands that decide"
    tab.keyboard.press("Enter")
    assert tab.url.endswith("#decide")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_is_told_everything_and_each_text_can_be_read(
    stage: Stage, page: Page, browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    namespace = f"reader-{scheme}"
    held = stage.held(namespace, note="Look at the slow query first.", breach=True)
    token = stage.viewer(namespace, "viewer", "gatewright-viewer")
    context = browser.new_context(ignore_https_errors=True, viewport=DESKTOP, color_scheme=scheme)
    tab = context.new_page()
    try:
        tab.goto(f"{page.base}/sign-in")
        assert _flaws(tab) == []
        sign_in(tab, page, token)
        assert _flaws(tab) == []
        tab.goto(f"{page.base}/holds/{namespace}/checkout")
        for summary in tab.locator("summary").all():
            summary.click()
        assert _flaws(tab) == []
        said = tab.locator("body").aria_snapshot()
        for line in (
            '- link "Skip to the content"',
            "- banner:",
            '- navigation "Pages"',
            "- main:",
            "- contentinfo:",
            f'heading "checkout in {namespace}: held" [level=1]',
            'region "What blocks"',
            'table "Checks that block"',
            'table "Looks of http-success"',
            'img "http-success: estimate against bounds over the looks"',
            'rowheader "http-success"',
            'cell "below threshold"',
        ):
            assert line in said, f"{line} is not in what a screen reader gets:\n{said}"
        assert held.results[0].message in said
    finally:
        context.close()


def _flaws(tab: Tab) -> list[str]:
    """What would keep somebody from using the page; each as a sentence."""
    found: list[str] = tab.evaluate(FLAWS)
    return found


FLAWS = (Path(__file__).with_name("page_flaws.js")).read_text(encoding="utf-8")


def test_a_phone_shows_each_page_without_scrolling_sideways(
    stage: Stage, page: Page, browser: Browser
) -> None:
    name = "a-service-with-a-rather-long-name-for-a-telephone-ab"
    stage.held("phone", name, note="x" * 300)
    token = stage.viewer("phone", "viewer", "gatewright-viewer")
    context = browser.new_context(ignore_https_errors=True, viewport=PHONE, is_mobile=True, has_touch=True)  # fmt: skip
    tab = context.new_page()
    try:
        tab.goto(f"{page.base}/sign-in")
        assert _sideways(tab) == 0
        sign_in(tab, page, token)
        assert _sideways(tab) == 0
        tab.get_by_role("link", name=f"{name} in phone").tap()
        expect(tab.get_by_role("heading", level=1)).to_contain_text("held")
        for summary in tab.locator("summary").all():
            summary.tap()
        assert _sideways(tab) == 0
        letters = "Math.min(...[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height))"
        assert tab.evaluate(letters) >= 10, "letters of the plot are too small on a phone"
    finally:
        context.close()


def _sideways(tab: Tab) -> int:
    """Pixels that the page is wider than the screen."""
    return int(
        tab.evaluate("Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - 360")
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_only_reading_is_taken(page: Page, method: str) -> None:
    for path in ("/", "/holds", "/holds/shop/checkout", "/healthz", "/readyz", "/page.css", "/no-such-page"):
        answer = page.get(path, "not-a-token", method=method)
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD"), f"{method} {path}"


def test_it_is_well(page: Page) -> None:
    assert page.get("/healthz").text == page.get("/readyz").text == "ok\n"
    head = page.get("/healthz", method="HEAD")
    assert (head.status_code, head.content) == (200, b"")


def test_its_account_may_only_look_and_did_nothing_else(stage: Stage, page: Page) -> None:
    """Its rights, and what the API server's audit log says that it did, in all tests of this module before."""
    stage.held("audited")
    token = stage.viewer("audited", "viewer", "gatewright-viewer")
    assert page.get("/holds/audited/checkout", token).status_code == 200
    allowed = {
        (verb, resource)
        for each in rendered(stage.cluster, "server.yaml")
        if each["kind"] == "ClusterRole"
        for rule in each["rules"]
        for verb in rule["verbs"]
        for resource in rule["resources"]
    }
    reviews = {("create", "tokenreviews"), ("create", "subjectaccessreviews")}
    assert reviews <= allowed
    assert {verb for verb, _ in allowed - reviews} == {"get", "list"}
    events = [json.loads(line) for line in stage.cluster.audit_log.read_text().splitlines()]
    done = {
        (event["verb"], (event.get("objectRef") or {}).get("resource", ""))
        for event in events
        if event["user"]["username"] == ACCOUNT
    }
    assert reviews | {("get", "rollouts"), ("list", "gateruns"), ("get", "configmaps")} <= done
    assert {pair for pair in done if pair[1]} <= allowed
    assert {verb for verb, resource in done if not resource} <= {"get"}


def test_no_token_stands_in_what_it_writes(stage: Stage, page: Page) -> None:
    token = stage.viewer("logs", "viewer", "gatewright-viewer")
    assert page.get("/holds", token).status_code == 200
    log = page.authority.with_name("page.log").read_text()
    assert token not in log
    assert log == "", "a page that works has nothing to say"


def test_the_deployment_is_accepted_as_the_chart_renders_it(stage: Stage) -> None:
    for options in ((), ("--set", "server.tls.secretName=page", "--set", "server.namespaces={shop}")):
        for each in rendered(stage.cluster, "server.yaml", *options):
            if each["kind"] in ("Deployment", "Service"):
                answer = kubectl(
                    ["create", "--dry-run=server", "-f", "-"], stage.cluster.kubeconfig, manifest=each
                )
                assert answer.ok, answer.err
