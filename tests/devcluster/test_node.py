"""The node made of processes: what a pod's owner may rely on."""

import asyncio
import re
import sys
import time
import uuid
from pathlib import Path

import pytest

from devcluster.addresses import listen_address
from devcluster.kubeapi import Conflict, Json
from devcluster.resources import DEPLOYMENTS, EVENTS, JOBS, NODES, PODS
from tests.devcluster.support import (
    Cluster,
    alive,
    condition,
    container,
    eventually,
    sample_container,
    shell,
    waiting,
)


def is_ready(status: Json) -> bool:
    """Whether the pod is Ready."""
    return condition(status, "Ready") == "True"


def terminated(status: Json, name: str = "app") -> Json:
    """How a container ended, empty while it has not."""
    return (container(status, name).get("state") or {}).get("terminated") or {}


def last_terminated(status: Json, name: str = "app") -> Json:
    """How the run before this one ended, empty when there was none."""
    return (container(status, name).get("lastState") or {}).get("terminated") or {}


def written(path: Path) -> str:
    """The content of a file, empty while there is none."""
    return path.read_text() if path.exists() else ""


def field_of(path: str) -> Json:
    """A reference to a field of the pod itself."""
    return {"fieldRef": {"fieldPath": path}}


async def test_the_node_is_ready_and_carries_no_taint_that_keeps_pods_away(cluster: Cluster) -> None:
    node = await cluster.api.get(NODES, "devcluster-node")
    assert condition(node["status"], "Ready") == "True"
    assert int(node["status"]["capacity"]["pods"]) >= 100
    assert not node["spec"].get("taints")


async def test_a_pod_runs_on_the_node_with_its_own_address_and_the_status_a_kubelet_writes(
    cluster: Cluster,
) -> None:
    await cluster.pod("a", sample_container(VERSION="a"))
    await cluster.pod("b", sample_container(VERSION="b"))
    a = await cluster.wait_pod("a", "Ready", is_ready)
    b = await cluster.wait_pod("b", "Ready", is_ready)
    assert a["spec"]["nodeName"] == "devcluster-node"
    assert a["status"]["phase"] == "Running"
    assert a["status"]["podIP"] != b["status"]["podIP"]
    assert a["status"]["podIPs"] == [{"ip": a["status"]["podIP"]}]
    for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready"):
        assert condition(a["status"], kind) == "True", kind
    entry = container(a["status"])
    assert (entry["started"], entry["ready"], entry["restartCount"]) == (True, True, 0)
    assert re.fullmatch(r"docker-pullable://shop/checkout@sha256:[0-9a-f]{64}", entry["imageID"])
    assert "startedAt" in entry["state"]["running"]
    reader, writer = await asyncio.open_connection(listen_address(a["status"]["podIP"]), 8080)
    writer.write(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert b'"version": "a"' in answer, "the process behind the pod's address is the pod's own"


async def test_a_pod_is_running_soon_after_its_creation(cluster: Cluster) -> None:
    took = []
    for number in range(5):
        began = time.perf_counter()
        await cluster.pod(f"quick-{number}", shell("sleep 60"))
        await cluster.wait_pod(f"quick-{number}", "Running", lambda status: status.get("phase") == "Running")
        took.append(time.perf_counter() - began)
    assert min(took) < 0.5, f"seconds from creation to Running: {took}"


async def test_environment_comes_from_values_references_fields_and_other_variables(cluster: Cluster) -> None:
    await cluster.config_map("settings", COLOUR="blue", SIZE="large")
    await cluster.secret("keys", TOKEN="not-shown-anywhere")
    script = 'echo "$A|$B|$C|$D|$E|$F|$G|$COLOUR|$IN_SIZE|$TOKEN|$ABSENT|$POD_LISTEN_IP|$LIST"; sleep 60'
    await cluster.pod(
        "env",
        shell(
            script,
            envFrom=[
                {"configMapRef": {"name": "settings"}},
                {"configMapRef": {"name": "settings"}, "prefix": "IN_"},
                {"secretRef": {"name": "keys"}},
                {"secretRef": {"name": "nowhere", "optional": True}},
            ],
            env=[
                {"name": "A", "value": "plain"},
                {"name": "B", "value": "$(A)-$(COLOUR)-$$(A)-$(UNKNOWN)"},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "SIZE"}}},
                {"name": "D", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "TOKEN"}}},
                {"name": "E", "valueFrom": field_of("metadata.labels['tier']")},
                {"name": "F", "valueFrom": field_of("metadata.annotations['note']")},
                {"name": "G", "valueFrom": field_of("status.podIP")},
                {
                    "name": "ABSENT",
                    "valueFrom": {"secretKeyRef": {"name": "keys", "key": "none", "optional": True}},
                },
            ],
        ),
        labels={"tier": "web"},
        annotations={"note": "hello"},
    )
    pod = await cluster.wait_pod("env", "Running", lambda status: status.get("phase") == "Running")
    ip = pod["status"]["podIP"]

    async def line() -> str:
        return cluster.log("env")

    text = await eventually("the container has written its line", line)
    assert text.strip() == (
        f"plain|plain-blue-$(A)-$(UNKNOWN)|large|not-shown-anywhere|web|hello|{ip}|blue|large|not-shown-anywhere||"
        f"{listen_address(ip)}|"
    )


async def test_nothing_of_the_agents_own_environment_reaches_a_container(cluster: Cluster) -> None:
    await cluster.pod("bare", shell("env; sleep 60"))
    await cluster.wait_pod("bare", "Running", lambda status: status.get("phase") == "Running")

    async def names() -> set[str]:
        return {line.partition("=")[0] for line in cluster.log("bare").splitlines()}

    seen = await eventually("the container has written its environment", names)
    expected = {"PATH", "HOME", "LANG", "HOSTNAME", "PYTHONPATH", "PYTHONUNBUFFERED", "POD_LISTEN_IP"}
    own = {"DEVCLUSTER_NODE_RUN", "DEVCLUSTER_TERMINATION_LOG"}
    assert seen <= expected | own | {"PWD", "SHLVL", "OLDPWD", "_"}


async def test_a_missing_config_map_keeps_the_container_waiting_until_it_is_there(cluster: Cluster) -> None:
    await cluster.pod("needs", shell("sleep 60", envFrom=[{"configMapRef": {"name": "late"}}]))
    pod = await cluster.wait_pod(
        "needs", "waits for its ConfigMap", lambda status: waiting(status) == "CreateContainerConfigError"
    )
    assert pod["status"]["phase"] == "Pending"
    message = container(pod["status"])["state"]["waiting"]["message"]
    assert message == 'configmap "late" not found'
    await cluster.config_map("late", X="1")
    await cluster.wait_pod("needs", "Running", lambda status: status.get("phase") == "Running")


@pytest.mark.parametrize(
    ("image", "command", "reason"),
    [
        ("shop/missing:1", ["sleep", "60"], "ImagePullBackOff"),
        ("shop/checkout:1", None, "ImagePullBackOff"),
        ("Not A Name", ["sleep", "60"], "InvalidImageName"),
    ],
)
async def test_an_image_that_cannot_be_had_leaves_the_pod_pending(
    cluster: Cluster, image: str, command: list[str] | None, reason: str
) -> None:
    body: Json = {"name": "app", "image": image}
    if command is not None:
        body["command"] = command
    await cluster.pod("no-image", body)
    pod = await cluster.wait_pod("no-image", reason, lambda status: waiting(status) == reason)
    assert pod["status"]["phase"] == "Pending"
    assert condition(pod["status"], "Ready") == "False"


async def test_an_image_id_can_be_changed_to_play_a_moved_tag(cluster: Cluster) -> None:
    await cluster.pod("tagged", shell("sleep 60"))
    before = await cluster.wait_pod("tagged", "Running", lambda status: status.get("phase") == "Running")
    digest = "sha256:" + "ab" * 32
    assert digest not in container(before["status"])["imageID"]
    note = {"metadata": {"annotations": {"devcluster.gatewright.dev/image-id": digest}}}
    await cluster.api.patch(PODS, "tagged", note, cluster.namespace)
    await cluster.wait_pod(
        "tagged",
        "reports the other digest",
        lambda status: container(status)["imageID"] == f"docker-pullable://tools/shell@{digest}",
    )


async def test_a_program_that_does_not_exist_ends_with_128_and_is_tried_again(cluster: Cluster) -> None:
    await cluster.pod("typo", {"name": "app", "image": "x", "command": ["no-such-program"]})
    pod = await cluster.wait_pod("typo", "backs off", lambda status: waiting(status) == "CrashLoopBackOff")
    assert last_terminated(pod["status"])["exitCode"] == 128
    assert last_terminated(pod["status"])["reason"] == "StartError"


async def test_a_crashing_container_is_restarted_counted_and_backs_off(cluster: Cluster) -> None:
    await cluster.pod("crash", shell("echo one more; exit 3"))
    pod = await cluster.wait_pod("crash", "backs off", lambda status: waiting(status) == "CrashLoopBackOff")
    assert last_terminated(pod["status"])["exitCode"] == 3
    assert last_terminated(pod["status"])["reason"] == "Error"
    assert pod["status"]["phase"] == "Running", "as the kubelet says of a pod that was started once"
    assert condition(pod["status"], "Ready") == "False"
    later = await cluster.wait_pod(
        "crash", "a third restart", lambda status: container(status)["restartCount"] >= 3
    )
    runs = container(later["status"])["restartCount"] + 1
    assert cluster.log("crash").count("one more") >= runs - 1, "output of earlier runs is kept"


async def test_a_crash_of_the_service_shows_as_exit_code_and_restart(cluster: Cluster) -> None:
    await cluster.pod("sample", sample_container(CRASH_AFTER_SECONDS="0.5"))
    pod = await cluster.wait_pod("sample", "restarted", lambda status: container(status).get("restartCount"))
    assert last_terminated(pod["status"])["exitCode"] == 1


@pytest.mark.parametrize(
    ("policy", "script", "phase"),
    [
        ("Never", "exit 0", "Succeeded"),
        ("Never", "exit 4", "Failed"),
        ("OnFailure", "exit 0", "Succeeded"),
    ],
)
async def test_a_pod_that_is_not_restarted_ends_in_the_phase_of_its_exit_code(
    cluster: Cluster, policy: str, script: str, phase: str
) -> None:
    await cluster.pod("once", shell(script), restartPolicy=policy)
    pod = await cluster.wait_pod("once", phase, lambda status: status.get("phase") == phase)
    assert container(pod["status"])["restartCount"] == 0
    assert condition(pod["status"], "Ready") == "False"


async def test_a_failing_run_is_repeated_on_failure_until_it_succeeds(
    cluster: Cluster, tmp_path: Path
) -> None:
    script = f"test -e {tmp_path}/done || {{ touch {tmp_path}/done; exit 1; }}"
    await cluster.pod("again", shell(script), restartPolicy="OnFailure")
    pod = await cluster.wait_pod("again", "Succeeded", lambda status: status.get("phase") == "Succeeded")
    assert container(pod["status"])["restartCount"] == 1
    assert terminated(pod["status"])["reason"] == "Completed"


async def test_the_last_word_of_a_container_is_its_termination_message(cluster: Cluster) -> None:
    script = 'printf said > "$DEVCLUSTER_TERMINATION_LOG"; exit {code}'
    both = [shell(script.format(code=3)), {**shell("exit 0"), "name": "silent"}]
    await cluster.pod("speaks", both, restartPolicy="Never")
    pod = await cluster.wait_pod("speaks", "Failed", lambda status: status.get("phase") == "Failed")
    said = terminated(pod["status"])
    assert (said["exitCode"], said["reason"], said["message"]) == (3, "Error", "said")
    assert "message" not in terminated(pod["status"], "silent"), "each container has a file of its own"


async def test_a_new_run_begins_with_an_empty_termination_message(cluster: Cluster, tmp_path: Path) -> None:
    script = (
        f"test -e {tmp_path}/done && exit 0; touch {tmp_path}/done; "
        'printf first > "$DEVCLUSTER_TERMINATION_LOG"; exit 1'
    )
    await cluster.pod("twice", shell(script), restartPolicy="OnFailure")
    pod = await cluster.wait_pod("twice", "Succeeded", lambda status: status.get("phase") == "Succeeded")
    assert last_terminated(pod["status"])["message"] == "first"
    assert "message" not in terminated(pod["status"])


async def test_a_termination_message_is_cut_at_4096_bytes(cluster: Cluster) -> None:
    script = 'head -c 5000 /dev/zero | tr "\\0" x > "$DEVCLUSTER_TERMINATION_LOG"'
    await cluster.pod("long", shell(script), restartPolicy="Never")
    pod = await cluster.wait_pod("long", "Succeeded", lambda status: status.get("phase") == "Succeeded")
    assert terminated(pod["status"])["message"] == "x" * 4096


async def test_a_job_completes_and_its_pods_can_be_deleted(cluster: Cluster) -> None:
    job = {
        "metadata": {"name": "job"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [shell("exit 0")]}}},
    }
    await cluster.api.create(JOBS, job, cluster.namespace)

    async def complete() -> bool:
        status = (await cluster.api.get(JOBS, "job", cluster.namespace)).get("status") or {}
        return condition(status, "Complete") == "True"

    await eventually("the Job is Complete", complete)
    await cluster.api.delete(JOBS, "job", cluster.namespace, propagation="Foreground")

    async def gone() -> bool:
        return not (await cluster.api.list(PODS, cluster.namespace))["items"]

    await eventually("the Job's pods are gone", gone)


async def test_init_containers_run_one_after_the_other_before_the_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    first = shell(f"sleep 0.3; echo first >> {tmp_path}/order")
    second = shell(f"echo second >> {tmp_path}/order")
    main = shell(f"echo main >> {tmp_path}/order; sleep 60")
    await cluster.pod("order", main, initContainers=[{**first, "name": "one"}, {**second, "name": "two"}])
    pod = await cluster.wait_pod("order", "waits for its init container", lambda status: waiting(status))
    assert waiting(pod["status"]) == "PodInitializing"
    assert pod["status"]["phase"] == "Pending"
    assert condition(pod["status"], "Initialized") == "False"
    pod = await cluster.wait_pod("order", "Running", lambda status: status.get("phase") == "Running")
    assert condition(pod["status"], "Initialized") == "True"

    async def order() -> bool:
        return written(tmp_path / "order").split() == ["first", "second", "main"]

    await eventually("the order is first, second, main", order)


async def test_a_failed_init_container_fails_a_pod_that_is_not_restarted(cluster: Cluster) -> None:
    init = {**shell("exit 7"), "name": "one"}
    await cluster.pod("bad-init", shell("sleep 60"), initContainers=[init], restartPolicy="Never")
    pod = await cluster.wait_pod("bad-init", "Failed", lambda status: status.get("phase") == "Failed")
    assert terminated(pod["status"], "one")["exitCode"] == 7
    assert "running" not in container(pod["status"])["state"]


async def test_a_failing_readiness_probe_takes_the_pod_out_of_the_endpoints(
    cluster: Cluster, tmp_path: Path
) -> None:
    await cluster.service("flag")
    probe = {"exec": {"command": ["test", "-e", f"{tmp_path}/up"]}, "periodSeconds": 1, "failureThreshold": 1}
    body = shell("sleep 60", readinessProbe=probe, ports=[{"name": "http", "containerPort": 8080}])
    await cluster.pod("flag", body, labels={"app": "flag"})
    pod = await cluster.wait_pod("flag", "Running", lambda status: status.get("phase") == "Running")
    assert condition(pod["status"], "Ready") == "False"
    (tmp_path / "up").touch()
    pod = await cluster.wait_pod("flag", "Ready", is_ready)
    assert await cluster.wait_endpoints("flag", 1) == [pod["status"]["podIP"]]
    (tmp_path / "up").unlink()
    pod = await cluster.wait_pod("flag", "not Ready", lambda status: not is_ready(status))
    assert container(pod["status"])["restartCount"] == 0
    await cluster.wait_endpoints("flag", 0)


async def test_a_service_that_says_it_is_not_ready_never_is(cluster: Cluster) -> None:
    await cluster.pod("unready", sample_container(READY="false"))

    async def told() -> bool:
        events = await cluster.api.list(EVENTS, cluster.namespace)
        return any("statuscode: 503" in event["message"] for event in events["items"])

    await eventually("an Event tells of the readiness probe", told)
    pod = await cluster.see("unready")
    assert pod["status"]["phase"] == "Running"
    assert not is_ready(pod["status"])


async def test_a_failing_liveness_probe_restarts_the_container(cluster: Cluster, tmp_path: Path) -> None:
    probe = {
        "exec": {"command": ["test", "-e", f"{tmp_path}/alive"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    await cluster.pod(
        "dead",
        shell("sleep 60", livenessProbe={**probe, "terminationGracePeriodSeconds": 1}),
    )
    pod = await cluster.wait_pod("dead", "restarted", lambda status: container(status).get("restartCount"))
    assert last_terminated(pod["status"])["exitCode"] == 143, "ended by SIGTERM"


async def test_a_startup_probe_keeps_the_other_probes_back(cluster: Cluster) -> None:
    body = sample_container(START_DELAY_SECONDS="1.5")
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 1}
    body |= {
        "startupProbe": {**probe, "failureThreshold": 10},
        "livenessProbe": {**probe, "failureThreshold": 1},
    }
    await cluster.pod("slow", body)
    pod = await cluster.wait_pod("slow", "Running", lambda status: status.get("phase") == "Running")
    assert container(pod["status"])["started"] is False
    pod = await cluster.wait_pod("slow", "Ready", is_ready)
    assert container(pod["status"])["started"] is True
    assert container(pod["status"])["restartCount"] == 0, (
        "the liveness probe did not end it before it had started"
    )


async def test_a_deleted_pod_may_finish_within_its_grace_period(cluster: Cluster, tmp_path: Path) -> None:
    script = f"trap 'echo asked > {tmp_path}/asked; sleep 0.5; echo finished > {tmp_path}/end; exit 0' TERM; "
    await cluster.pod(
        "polite", shell(script + "while :; do sleep 0.05; done"), terminationGracePeriodSeconds=20
    )
    await cluster.wait_pod("polite", "Ready", is_ready)
    await asyncio.sleep(0.2)  # the shell must have set its trap; nothing outside can see that
    began = time.perf_counter()
    await cluster.api.delete(PODS, "polite", cluster.namespace)
    await cluster.wait_pod("polite", "not Ready at once", lambda status: not is_ready(status), seconds=2)
    await cluster.wait_gone("polite")
    assert time.perf_counter() - began < 10
    assert written(tmp_path / "end") == "finished\n"


async def test_a_process_that_ignores_the_signal_is_killed_when_grace_is_over(cluster: Cluster) -> None:
    marker = f"marker-{uuid.uuid4().hex}"
    script = f"trap '' TERM; while :; do sleep 0.05; done; echo {marker}"
    await cluster.pod("stubborn", shell(script), terminationGracePeriodSeconds=1)
    await cluster.wait_pod("stubborn", "Ready", is_ready)
    assert alive(marker)
    await cluster.api.delete(PODS, "stubborn", cluster.namespace)
    await cluster.wait_gone("stubborn", seconds=8)
    assert not alive(marker)


async def test_a_pre_stop_sleep_comes_before_the_signal(cluster: Cluster, tmp_path: Path) -> None:
    script = f"trap 'date +%s.%N > {tmp_path}/signal; exit 0' TERM; while :; do sleep 0.05; done"
    hook = {"preStop": {"sleep": {"seconds": 1}}}
    await cluster.pod("hooked", shell(script, lifecycle=hook))
    await cluster.wait_pod("hooked", "Ready", is_ready)
    began = time.time()
    await cluster.api.delete(PODS, "hooked", cluster.namespace)
    await cluster.wait_gone("hooked")
    assert float(written(tmp_path / "signal")) - began >= 0.9


async def test_a_pod_deleted_by_force_leaves_no_process(cluster: Cluster) -> None:
    marker = f"marker-{uuid.uuid4().hex}"
    await cluster.pod("forced", shell(f"trap '' TERM; while :; do sleep 0.05; done; echo {marker}"))
    await cluster.wait_pod("forced", "Ready", is_ready)
    await cluster.api.delete(PODS, "forced", cluster.namespace, grace_period_seconds=0)

    async def ended() -> bool:
        return not alive(marker)

    await eventually("its process has ended", ended, seconds=5)


async def test_what_a_container_started_ends_with_it(cluster: Cluster) -> None:
    marker = f"marker-{uuid.uuid4().hex}"
    child = f"{sys.executable} -c 'import time; time.sleep(600)  # {marker}' & sleep 0.3; exit 0"
    await cluster.pod("parent", shell(child), restartPolicy="Never")
    await cluster.wait_pod("parent", "Succeeded", lambda status: status.get("phase") == "Succeeded")
    assert not alive(marker), "the process group dies with its container, as a pid namespace would"


async def test_a_pod_that_fits_no_node_is_unschedulable(cluster: Cluster) -> None:
    await cluster.pod("nowhere", shell("sleep 60"), nodeSelector={"disk": "none-here"})
    pod = await cluster.wait_pod(
        "nowhere", "PodScheduled is False", lambda status: condition(status, "PodScheduled") == "False"
    )
    assert pod["status"]["phase"] == "Pending"
    assert "nodeName" not in pod["spec"]
    reason = next(entry for entry in pod["status"]["conditions"] if entry["type"] == "PodScheduled")
    assert reason["reason"] == "Unschedulable"
    assert "didn't match Pod's node affinity/selector" in reason["message"]


async def test_a_pod_kept_apart_by_anti_affinity_is_placed_when_the_other_goes(cluster: Cluster) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "alone"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"app": "alone"}
    await cluster.pod("first", shell("sleep 60"), affinity=apart, labels=labels)
    await cluster.wait_pod("first", "Ready", is_ready)
    await cluster.pod("second", shell("sleep 60"), affinity=apart, labels=labels)
    await cluster.wait_pod(
        "second", "PodScheduled is False", lambda status: condition(status, "PodScheduled") == "False"
    )
    await cluster.api.delete(PODS, "first", cluster.namespace, grace_period_seconds=1)
    await cluster.wait_pod("second", "Ready", is_ready)


async def test_a_readiness_gate_holds_back_ready_but_not_containers_ready(cluster: Cluster) -> None:
    await cluster.pod("gated", shell("sleep 60"), readinessGates=[{"conditionType": "example.org/open"}])
    pod = await cluster.wait_pod("gated", "Running", lambda status: status.get("phase") == "Running")
    assert condition(pod["status"], "ContainersReady") == "True"
    assert condition(pod["status"], "Ready") == "False"
    opened = {"type": "example.org/open", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}
    await cluster.api.patch(
        PODS,
        "gated",
        {"status": {"conditions": [opened]}},
        cluster.namespace,
        subresource="status",
        kind="strategic",
    )
    pod = await cluster.wait_pod("gated", "Ready", is_ready)
    assert condition(pod["status"], "example.org/open") == "True", "a foreign condition is left alone"


async def test_a_killed_agent_takes_its_processes_with_it_and_a_new_one_restarts_them(
    cluster: Cluster,
) -> None:
    marker = f"marker-{uuid.uuid4().hex}"
    detached = f"{sys.executable} -c 'import os, time; os.setsid(); time.sleep(600)  # {marker}'"
    await cluster.pod("survivor", shell(f"{detached} & sleep 600  # {marker}"))
    await cluster.pod("done", shell("exit 0"), restartPolicy="Never")
    before = await cluster.wait_pod("survivor", "Ready", is_ready)
    await cluster.wait_pod("done", "Succeeded", lambda status: status.get("phase") == "Succeeded")

    async def all_started() -> bool:
        return len(alive(marker)) == 2

    await eventually("the container and its detached child run", all_started)
    machine = cluster.machine
    machine.kill_part("node")

    async def all_ended() -> bool:
        return not alive(marker)

    await eventually("no process of a pod outlives the agent", all_ended, seconds=5)
    kubeconfig = machine.dir / "parts" / "node.kubeconfig"
    command = ["-m", "devcluster.node", "--kubeconfig", str(kubeconfig), "--dir", str(machine.node_dir)]
    machine.start_part("node", [sys.executable, *command])
    after = await cluster.wait_pod(
        "survivor", "restarted", lambda status: container(status)["restartCount"] == 1 and is_ready(status)
    )
    assert after["status"]["podIP"] == before["status"]["podIP"]
    assert last_terminated(after["status"])["reason"] == "Unknown"
    finished = await cluster.see("done")
    assert finished["status"]["phase"] == "Succeeded"
    assert container(finished["status"])["restartCount"] == 0, "what had finished is not run again"


async def test_a_hundred_pods_become_ready(cluster: Cluster) -> None:
    template = {
        "metadata": {"labels": {"app": "many"}},
        "spec": {"containers": [shell("exec sleep 600")], "terminationGracePeriodSeconds": 1},
    }
    body = {
        "metadata": {"name": "many"},
        "spec": {"replicas": 100, "selector": {"matchLabels": {"app": "many"}}, "template": template},
    }
    await cluster.api.create(DEPLOYMENTS, body, cluster.namespace)

    async def available() -> bool:
        status = (await cluster.api.get(DEPLOYMENTS, "many", cluster.namespace)).get("status") or {}
        return bool(status.get("availableReplicas") == 100)

    await eventually("100 pods are available", available, seconds=60)
    pods = (await cluster.api.list(PODS, cluster.namespace, label_selector="app=many"))["items"]
    assert len({pod["status"]["podIP"] for pod in pods}) == 100


async def test_the_agent_never_deletes_another_pod_of_the_same_name(cluster: Cluster) -> None:
    await cluster.pod("named", shell("sleep 60"))
    first = await cluster.wait_pod("named", "Ready", is_ready)
    with pytest.raises(Conflict):
        await cluster.api.delete(PODS, "named", cluster.namespace, uid=str(uuid.uuid4()))
    await cluster.api.delete(
        PODS, "named", cluster.namespace, uid=first["metadata"]["uid"], grace_period_seconds=1
    )
    await cluster.wait_gone("named")
    await cluster.pod("named", shell("sleep 60"))
    second = await cluster.wait_pod("named", "Ready", is_ready)
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


async def test_two_pods_that_come_together_are_kept_apart_by_anti_affinity(cluster: Cluster) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "apart"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    names = [f"apart-{number}" for number in range(4)]
    await asyncio.gather(
        *(cluster.pod(name, shell("sleep 60"), affinity=apart, labels={"app": "apart"}) for name in names)
    )

    async def all_decided() -> list[str | None] | None:
        verdicts = [condition((await cluster.see(name))["status"], "PodScheduled") for name in names]
        return verdicts if None not in verdicts else None

    verdicts = await eventually("each pod has a place or is told why not", all_decided)
    assert sorted(map(str, verdicts)) == ["False", "False", "False", "True"]


async def test_a_volume_that_cannot_be_mounted_is_told(cluster: Cluster) -> None:
    await cluster.pod("disk", shell("sleep 60"), volumes=[{"name": "data", "emptyDir": {}}])

    async def told() -> bool:
        events = await cluster.api.list(EVENTS, cluster.namespace)
        return any(
            event["reason"] == "FailedMount" and "data" in event["message"] for event in events["items"]
        )

    await eventually("an Event tells that nothing is mounted", told)
