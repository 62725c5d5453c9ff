"""`make demo`, whole: every release ends as it should, no request is lost, and the ledger verifies."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(660), pytest.mark.xdist_group("demo")]

ROOT = Path(__file__).resolve().parents[2]
STORY = (
    r"✓ v2 was promoted step by step and baked",
    r"RollingBack, weight 0 % of 0 %: .*The canary failed most requests",
    r"✓ v3 was rolled back",
    r"first failing scrape → all traffic on stable: [0-9.]+ s",
    r"decision → the write that restores: [0-9.]+ s",
    r"✓ v4 was rolled back",
    r"caught in window \d+ of its gate",
    r"✓ v5 is held",
    r"kubectl gate review checkout -n shop +# as reviewer-a",
    r"started by +developer-a",
    r"Refused: developer-a started this change; somebody else has to approve it\.",
    r"Refused: spec\.reviewer is reviewer-a, but you are reviewer-b\. Nobody signs for somebody else\.",
    r"Accepted: reviewer-a approved",
    r"✓ v5 was promoted and baked, on the word of reviewer-a",
    r"requests through the gateway; \d+ failed because .*; 0 failed otherwise",
    r"Review +reviewer-a +Approve",
    r"The ledger of checkout in shop holds: \d+ entries",
    r"python -m devcluster up --detach",
)
"""What the demo says, in this order."""


@pytest.fixture(scope="module")
def demo() -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "devcluster.demo"],
        cwd=ROOT,
        env=os.environ | {"NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_every_release_of_the_demo_ends_as_it_should(demo: "subprocess.CompletedProcess[str]") -> None:
    assert demo.returncode == 0, f"exit status {demo.returncode}\n{demo.stderr}\n{demo.stdout}"


def test_the_demo_tells_its_story_in_order(demo: "subprocess.CompletedProcess[str]") -> None:
    position = 0
    for line in STORY:
        found = re.compile(line).search(demo.stdout, position)
        assert found, f"after character {position} the demo does not say {line!r}:\n{demo.stdout}"
        position = found.end()
