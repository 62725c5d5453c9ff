"""A stand-in for the ``go`` command: it answers at once, and fails in the way that a test asks for."""

from pathlib import Path

# What the real command printed in these cases, shortened.
NO_NETWORK = (
    'go: example.test/mod@v1.2.3: Get "https://proxy.invalid": dial tcp: lookup proxy.invalid: no such host'
)
FULL_DISK = "compile: writing output: write $WORK/b002/_pkg_.a: no space left on device"
TAMPERED = "verifying example.test/mod@v1.2.3: checksum mismatch"
COMPILE_ERROR = "main.go:3:1: syntax error: unexpected name"

_SCRIPT = """#!/bin/sh
calls='{folder}/calls'
echo "$1 $(date +%s%N)" >> "$calls"
case "$1" in
version) echo 'go version go{version} linux/amd64' ;;
list) printf 'example.test/a\\nexample.test/b\\n' ;;
build)
    while [ "$1" != -o ]; do shift; done
    {build}
    printf '#!/bin/sh\\necho built\\n' > "$2" && chmod +x "$2" ;;
*) exit 64 ;;
esac
"""


def write_fake_go(
    folder: Path, *, version: str = "1.99.0", fail_with: str | None = None, seconds: float = 0
) -> Path:
    """Writes ``go`` into ``folder``; ``fail_with`` is what a build prints before it fails."""
    folder.mkdir(parents=True, exist_ok=True)
    build = f"sleep {seconds}" if fail_with is None else f"cat >&2 <<'END'\n{fail_with}\nEND\n    exit 1"
    go = folder / "go"
    go.write_text(_SCRIPT.format(folder=folder, version=version, build=build))
    go.chmod(0o755)
    return go


def calls(folder: Path, word: str) -> int:
    """How often the stand-in in ``folder`` was called with this first word."""
    log = folder / "calls"
    return sum(line.startswith(word + " ") for line in log.read_text().splitlines()) if log.exists() else 0
