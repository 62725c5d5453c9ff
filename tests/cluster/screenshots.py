"""Draws docs/images anew, from the real page with a real API server behind it: `python -m tests.cluster.screenshots`."""

import tempfile
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from devcluster import Instance
from tests.browser import chromium
from tests.cluster.review_page import Page, Stage
from tests.cluster.support import kubectl
from tests.held_release import stamp

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
COLOURS = 48
"""Enough for text and lines; a picture is then a third of its size."""
SIZES = {"desktop": {"width": 960, "height": 800}, "phone": {"width": 360, "height": 720}}
PATHS = {"queue": "/holds", "hold": "/holds/shop/checkout"}


def main() -> None:
    with Instance(parts=("etcd", "apiserver")) as cluster:
        kubectl(["apply", "--server-side", "-f", str(ROOT / "crds")], cluster.kubeconfig, check=True)
        kubectl(["wait", "--for=condition=Established", "crd", "--all"], cluster.kubeconfig, check=True)
        stage = Stage(cluster)
        stage.prepare()
        now = datetime.now(UTC)
        stage.held("shop", approvalsNeeded=1, approvals=[])
        stage.held("pay", "ledger-api", since=stamp(now - timedelta(minutes=40)), initiator="")
        token = stage.viewer("shop", "oncall", "gatewright-reviewer", where=("pay",))
        folder = Path(tempfile.mkdtemp(prefix="page-"))
        with stage.page(folder) as page, chromium() as browser:
            for size in SIZES:
                for name, path in PATHS.items():
                    picture = taken(browser, page, token, size, path)
                    file = IMAGES / f"review-page-{name}-{size}.png"
                    file.write_bytes(picture)
                    print(f"wrote {file.relative_to(ROOT)}: {len(picture) // 1024} KiB")


def taken(browser: Browser, page: Page, token: str, size: str, path: str) -> bytes:
    """The whole page, in few colours."""
    context = browser.new_context(
        ignore_https_errors=True,
        viewport={"width": SIZES[size]["width"], "height": SIZES[size]["height"]},
        color_scheme="light",
        extra_http_headers={"Authorization": f"Bearer {token}"},
    )
    tab = context.new_page()
    tab.goto(page.base + path)
    whole = Image.open(BytesIO(tab.screenshot(full_page=True))).convert("RGB")
    context.close()
    small = BytesIO()
    whole.quantize(COLOURS, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    main()
