"""The machine that a benchmark ran on, in words that name neither it nor its folders."""

import os
import platform
import subprocess
from pathlib import Path

from devcluster.binaries import ensure
from tests.bench.figures import Say


def facts(say: Say) -> str:
    """A sentence: cores, memory, kernel, architecture, Python, Kubernetes."""
    meminfo = Path("/proc/meminfo").read_text()
    kibibytes = int(next(line.split()[1] for line in meminfo.splitlines() if line.startswith("MemTotal:")))
    return (
        f"{len(os.sched_getaffinity(0))} cores, {kibibytes / 1024**2:.0f} GiB of memory, "
        f"{platform.system()} {platform.release()} on {platform.machine()}, "
        f"Python {platform.python_version()}, {_kubernetes(say)}"
    )


def _kubernetes(say: Say) -> str:
    program = ensure("kube-apiserver", report=say)["kube-apiserver"]
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True)
    return answer.stdout.strip()
