"""An operator as a process of its own whose reconcile only tells (`stub_operator.py`): started, watched and
ended by a test.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

from tests.cluster.support import eventually

STUB = Path(__file__).with_name("stub_operator.py")


class OperatorProcess:
    """Use it as a context manager; what is still running at the end is killed."""

    def __init__(self, kubeconfig: Path, lease_namespace: str, log: Path, *options: str) -> None:
        self.lines: list[dict[str, Any]] = []
        self.lease_namespace = lease_namespace
        self.log_path = log
        self._log = log.open("w")
        self.process = subprocess.Popen(
            [
                *(sys.executable, str(STUB), "--kubeconfig", str(kubeconfig)),
                *("--listen", "127.0.0.1:0", "--identity", log.stem, *options),
            ],
            env=os.environ | {"POD_NAMESPACE": lease_namespace, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self.log_path.read_text()

    def page(self, path: str) -> tuple[int, str]:
        """Status and text of one of its pages."""
        address = re.search(r"serving probes address=(\S+)", self.log)
        assert address, f"it serves no pages yet; its log: {self.log}"
        try:
            with urllib.request.urlopen(f"http://{address[1]}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            raise AssertionError(f"{path}: {error}; its log: {self.log}") from error

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        found = re.search(rf"^{name} (\S+)$", self.page("/metrics")[1], re.MULTILINE)
        assert found, f"there is no metric {name}"
        return float(found[1])

    def leads(self) -> bool:
        """Whether it leads, has filled its cache, and is ready."""
        return self.metric("gatewright_leading") == 1 and self.page("/readyz")[0] == 200 and self.filled

    @property
    def filled(self) -> bool:
        """Whether its cache was filled since it leads."""
        return self.log.rfind("cache filled") > self.log.rfind(" leading ")

    def wait_until_leading(self, seconds: float = 30.0) -> None:
        """Wait for that; fails when the process ends instead."""

        def leading() -> bool:
            if self.process.poll() is not None:
                raise RuntimeError(f"the operator ended with {self.process.returncode}: {self.log}")
            return self.leads()

        eventually(leading, seconds, f"{self.log_path.stem} leads")

    def woken_for(self, key: str, after: int = 0) -> list[dict[str, Any]]:
        """What it told about a key since its line number `after`."""
        return [line for line in self.lines[after:] if line["key"] == key]

    def wait_until_woken(self, key: str, after: int = 0, seconds: float = 60.0) -> dict[str, Any]:
        """The latest that it told about a key since its line number `after`, as soon as there is something."""
        return eventually(lambda: self.woken_for(key, after), seconds, f"{key} is reconciled")[-1]

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)
