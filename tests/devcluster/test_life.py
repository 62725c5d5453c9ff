"""A development cluster's life: it dies with its owner, and nothing else is ever harmed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from devcluster import Client, DevclusterError, Instance, NotRunning, binaries
from devcluster.processes import is_frozen, is_running, start_time
from devcluster.supervision import python_environment, read_state

pytestmark = pytest.mark.cluster

# A part that leaves a grandchild in a session of its own, out of reach of signals to the part's group.
STRAY_PART = "setsid sleep 600 & echo $! > written && mv written stray.pid; wait"


@contextmanager
def owner_of(folder: Path, parts: set[str]) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that owns a cluster in ``folder``, which is up; it is ended if it still runs."""
    program = textwrap.dedent(
        f"""
        import time
        from pathlib import Path
        from devcluster import Instance
        with Instance(Path({str(folder)!r}), parts={parts!r}) as cluster:
            cluster.start_part("stray", ["sh", "-c", "cd {folder}; {STRAY_PART}"])
            while not Path({str(folder / "stray.pid")!r}).exists():
                time.sleep(0.02)
            print("up", flush=True)
            input()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=python_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        try:
            while (line := owner.stdout.readline()) and line.strip() != "up":
                pass
            assert line, "the owner ended before its cluster was up"
            yield owner
        finally:
            owner.kill()


def everything(folder: Path) -> dict[str, tuple[int, str]]:
    """Name, pid and start time of each process of the cluster, the stray grandchild included."""
    state = read_state(folder)
    assert state is not None
    found = {name: (part["pid"], part["started"]) for name, part in state["parts"].items()}
    found["supervisor"] = (state["supervisor"]["pid"], state["supervisor"]["started"])
    stray = int((folder / "stray.pid").read_text())
    found["grandchild"] = (stray, start_time(stray) or "")
    return found


def wait_until_gone(processes: dict[str, tuple[int, str]], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while alive := [name for name, (pid, started) in processes.items() if is_running(pid, started)]:
        assert time.monotonic() < deadline, f"still running {seconds:.0f} s after their owner died: {alive}"
        time.sleep(0.02)


def test_everything_ends_when_the_owner_is_killed_without_warning(tmp_path: Path) -> None:
    parts = {"etcd", "apiserver", "controller-manager"}
    with owner_of(tmp_path, parts) as owner:
        processes = everything(tmp_path)
        assert set(processes) == parts | {"stray", "grandchild", "supervisor"}
        assert all(is_running(*process) for process in processes.values()), processes
        owner.send_signal(signal.SIGKILL)
        wait_until_gone(processes)


def test_every_part_ends_when_the_supervisor_itself_is_killed(tmp_path: Path) -> None:
    with owner_of(tmp_path, {"etcd"}):
        processes = everything(tmp_path)
        # Once the supervisor is gone, only a part itself can answer for what it lets loose.
        grandchild, _ = processes.pop("grandchild")
        try:
            os.kill(processes["supervisor"][0], signal.SIGKILL)
            wait_until_gone(processes)
        finally:
            os.kill(grandchild, signal.SIGKILL)


def test_everything_ends_when_the_owner_leaves_in_order(tmp_path: Path) -> None:
    with owner_of(tmp_path, {"etcd"}) as owner:
        processes = everything(tmp_path)
        owner.communicate("\n", timeout=30)
    assert owner.returncode == 0
    assert not [name for name, process in processes.items() if is_running(*process)]


def test_two_clusters_side_by_side_know_nothing_of_each_other(tmp_path: Path) -> None:
    clusters: list[Instance] = []

    def start(name: str) -> None:
        clusters.append(Instance(tmp_path / name, parts={"apiserver"}).start())

    threads = [threading.Thread(target=start, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    try:
        assert len(clusters) == 2, "one of the two did not come up"
        first, second = clusters
        assert first.server_url != second.server_url
        with Client(first.kubeconfig) as client:
            client.create("/api/v1/namespaces", {"metadata": {"name": "only-here"}})
        with Client(second.kubeconfig) as client:
            names = {
                item["metadata"]["name"] for item in client.request("GET", "/api/v1/namespaces")["items"]
            }
        assert "only-here" not in names
        config = json.loads(first.user("reviewer-a").read_text())
        config["clusters"][0]["cluster"]["server"] = second.server_url
        (tmp_path / "crossed").write_text(json.dumps(config))
        with pytest.raises(OSError, match="certificate"), Client(tmp_path / "crossed") as crossed:
            crossed.request("GET", "/version")
    finally:
        for cluster in clusters:
            cluster.stop()


def test_a_second_cluster_in_the_same_folder_is_refused_and_the_first_lives_on(tmp_path: Path) -> None:
    with Instance(tmp_path, parts={"etcd"}) as first:
        with pytest.raises(DevclusterError, match=r"already runs in .* devcluster down"):
            Instance(tmp_path, parts={"etcd"}).start()
        assert first.status()["etcd"].running


def test_a_folder_with_somebody_elses_files_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DevclusterError, match="holds files that no development cluster made"):
        Instance(tmp_path, parts={"etcd"}).start()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def devcluster(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "devcluster", *arguments, "--dir", folder],
        env=python_environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with us."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_stale_state_file_never_costs_another_process_its_life(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    with Instance(tmp_path, parts={"etcd"}):
        pass
    state = read_state(tmp_path)
    assert state is not None
    # As after a reboot: the pid is somebody else's by now.
    for process in (state["supervisor"], state["parts"]["etcd"]):
        process["pid"] = bystander.pid
    (tmp_path / "state.json").write_text(json.dumps(state))
    status = devcluster("status", folder=tmp_path)
    assert status.returncode == 1
    assert "No development cluster runs in" in status.stderr
    down = devcluster("down", folder=tmp_path)
    assert down.returncode == 0, down.stderr
    assert bystander.poll() is None, "`down` killed a process that only has the pid of an earlier part"
    with Instance(tmp_path, parts={"etcd"}) as again:
        assert again.status()["etcd"].running


def test_what_an_earlier_cluster_stored_is_gone_when_the_next_one_starts_in_its_folder(
    tmp_path: Path,
) -> None:
    with Instance(tmp_path, parts={"apiserver"}) as first, Client(first.kubeconfig) as client:
        client.create("/api/v1/namespaces", {"metadata": {"name": "yesterday"}})
    with Instance(tmp_path, parts={"apiserver"}) as second, Client(second.kubeconfig) as client:
        names = {item["metadata"]["name"] for item in client.request("GET", "/api/v1/namespaces")["items"]}
    assert "yesterday" not in names
    assert "default" in names


def test_attaching_where_nothing_runs_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(NotRunning, match="start one with `python -m devcluster up --dir"):
        Instance.attach(tmp_path)


def test_a_part_that_dies_is_noticed(tmp_path: Path) -> None:
    with Instance(tmp_path, parts={"etcd"}) as cluster:
        assert cluster.kill_part("etcd", signal.SIGKILL) == -signal.SIGKILL
        status = devcluster("status", folder=tmp_path)
        assert status.returncode == 1
        assert "etcd: stopped (exit code -9)" in status.stdout


def test_a_part_can_be_added_frozen_ended_and_started_again(tmp_path: Path) -> None:
    with Instance(tmp_path, parts={"etcd"}) as cluster:
        counting = "import os, time\nprint('I am', os.environ['WHO'])\ntime.sleep(600)"
        first = cluster.start_part("extra", [sys.executable, "-c", counting], {"WHO": "first"})
        with pytest.raises(DevclusterError, match="extra is already running"):
            cluster.start_part("extra", ["true"])
        cluster.kill_part("extra", signal.SIGSTOP)
        assert is_frozen(first)
        cluster.kill_part("extra", signal.SIGCONT)
        assert cluster.kill_part("extra", signal.SIGTERM) == -signal.SIGTERM
        second = cluster.start_part("extra", [sys.executable, "-c", counting], {"WHO": "second"})
        assert second != first
        log = cluster.log_path("extra")
        deadline = time.monotonic() + 10
        while "I am second" not in log.read_text():
            assert time.monotonic() < deadline, f"its output is not in its log: {log.read_text()!r}"
            time.sleep(0.02)


def test_a_part_that_cannot_be_started_is_told_in_a_sentence(tmp_path: Path) -> None:
    with (
        Instance(tmp_path, parts={"etcd"}) as cluster,
        pytest.raises(DevclusterError, match=r"Part extra could not be started: .*No such file"),
    ):
        cluster.start_part("extra", ["/no/such/program"])


def fake_program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def use_as_etcd(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ensure(*names: str, report: object) -> dict[str, Path]:
        assert names == ("etcd",)
        return {"etcd": program}

    monkeypatch.setattr(binaries, "ensure", ensure)


def test_a_part_that_fails_during_the_start_is_told_with_the_end_of_its_log_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = fake_program(tmp_path / "etcd", "echo 'the disk is made of cheese' >&2; exit 3")
    use_as_etcd(broken, monkeypatch)
    cluster = Instance(tmp_path / "cluster", parts={"etcd"})
    with pytest.raises(DevclusterError, match=r"etcd stopped \(exit code 3\)(.|\n)*made of cheese"):
        cluster.start()
    assert not cluster.is_running


def test_a_port_that_somebody_else_took_first_is_exchanged_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = binaries.ensure("etcd", report=print)["etcd"]
    tried = tmp_path / "tried"
    unlucky = fake_program(
        tmp_path / "etcd",
        f'[ -e {tried} ] && exec {real} "$@"\ntouch {tried}\n'
        "echo 'listen tcp 127.0.0.1:1: bind: address already in use' >&2; exit 1",
    )
    use_as_etcd(unlucky, monkeypatch)
    with Instance(tmp_path / "cluster", parts={"etcd"}) as cluster:
        assert tried.exists()
        assert cluster.status()["etcd"].running


def test_a_start_that_is_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    command: list[str | Path] = [sys.executable, "-m", "devcluster", "up", "--detach", "--dir", tmp_path]
    with subprocess.Popen(command, env=python_environment(), stderr=subprocess.DEVNULL) as up:
        deadline = time.monotonic() + 120
        while "etcd" not in (read_state(tmp_path) or {"parts": {}})["parts"]:
            assert time.monotonic() < deadline, "etcd was never started"
            time.sleep(0.02)
        state = read_state(tmp_path)
        assert state is not None
        up.send_signal(signal.SIGKILL)
    processes = [state["supervisor"], *state["parts"].values()]
    wait_until_gone({str(process["pid"]): (process["pid"], process["started"]) for process in processes})


def test_a_detached_cluster_outlives_its_command_serves_the_others_and_goes_with_down(tmp_path: Path) -> None:
    up = devcluster("up", "--detach", folder=tmp_path)
    print(up.stderr)
    assert up.returncode == 0, up.stderr
    try:
        kubeconfig, prometheus, gateway = up.stdout.splitlines()[-3:]
        assert kubeconfig == f"KUBECONFIG={tmp_path / 'admin.kubeconfig'}"
        assert prometheus.startswith("PROMETHEUS=http://127.0.0.1:")
        assert gateway.startswith("GATEWAY=http://127.0.0.1:")
        status = devcluster("status", folder=tmp_path)
        assert status.returncode == 0, status.stdout
        for part in ("etcd", "apiserver", "controller-manager", "prometheus", "node", "gateway"):
            assert f"{part}: running" in status.stdout
        user = devcluster("user", "reviewer-a", "--group", "shop-sre", folder=tmp_path)
        assert Path(user.stdout.strip()).exists(), user
        assert "apiserver" in devcluster("logs", folder=tmp_path).stdout.splitlines()
        assert devcluster("logs", "etcd", folder=tmp_path).stdout
        missing = devcluster("logs", "no-such-pod", folder=tmp_path)
        assert missing.returncode == 1
        assert "Nothing named no-such-pod" in missing.stderr
    finally:
        down = devcluster("down", folder=tmp_path)
    assert down.returncode == 0, down.stderr
    state = read_state(tmp_path)
    assert state is not None
    left = [name for name, part in state["parts"].items() if is_running(part["pid"], part["started"])]
    assert not left, f"still running after `down`: {left}"


def test_a_cluster_in_the_foreground_tells_of_a_part_that_dies_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    folder, said = tmp_path / "cluster", tmp_path / "said"
    command: list[str | Path] = [sys.executable, "-m", "devcluster", "up", "--dir", folder]
    with (
        said.open("w") as errors,
        subprocess.Popen(
            command, env=python_environment(), stdout=subprocess.PIPE, stderr=errors, text=True
        ) as up,
    ):
        assert up.stdout is not None
        while not up.stdout.readline().startswith("GATEWAY="):
            assert up.poll() is None, "it ended before it was up"
        state = read_state(folder)
        assert state is not None
        Instance.attach(folder).kill_part("prometheus")
        deadline = time.monotonic() + 10
        while "prometheus has stopped (exit code -9)" not in said.read_text():
            assert time.monotonic() < deadline, f"its death was not told: {said.read_text()}"
            time.sleep(0.05)
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 130
    processes = [state["supervisor"], *state["parts"].values()]
    assert not [process for process in processes if is_running(process["pid"], process["started"])]


def test_a_path_longer_than_a_sockets_name_may_be_is_no_problem(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    with Instance(folder, parts={"etcd"}) as cluster:
        assert cluster.status()["etcd"].running
    shutil.rmtree(folder)
