"""The machine's own Chromium, headless, as tests and the documentation's pictures drive it."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium_program() -> str:
    """Raises AssertionError that says how to install one: tests of pages never pass without a browser."""
    for name in _NAMES:
        found = shutil.which(name)
        if found:
            return found
    raise AssertionError(
        f"None of {', '.join(_NAMES)} is on the PATH, and the review page is tested in a real browser. Install one: "
        "apt-get install chromium (Debian), apt-get install chromium-browser (Ubuntu), dnf install chromium (Fedora)."
    )


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without any page. Nobody else's profile is touched."""
    program = chromium_program()
    sandbox = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium refuses to sandbox for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*_FLAGS, *sandbox])
        try:
            yield browser
        finally:
            browser.close()
