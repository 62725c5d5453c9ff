"""The review page in a real browser, with a real API server behind it: who sees what, and that it only shows."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import Page as Tab

from devcluster import Instance
from tests.browser import chromium
from tests.cluster.review_page import Page, Stage

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
