"""The Job that is made from a CronJob: its template, its name, its owner, and what it is told of the gate."""

import pytest

from gatewright_analysis.kinds.evidence import JobReport
from gatewright_operator.job_manifest import (
    UnusableTemplate,
    belongs_to,
    bounded,
    environment,
    job_name,
    manifest,
)
from tests.unit.job_objects import NAME, RUN, Json, cron_job, gate_run, parsed

TOLD = {
    "GATEWRIGHT_NAMESPACE": "shop",
    "GATEWRIGHT_ROLLOUT": "checkout",
    "GATEWRIGHT_REVISION": "0123456789",
    "GATEWRIGHT_STEP": "1",
    "GATEWRIGHT_WEIGHT": "25",
    "GATEWRIGHT_CANARY_SERVICE": "checkout-canary",
    "GATEWRIGHT_STABLE_SERVICE": "checkout",
}


def made(template: Json, report: JobReport = JobReport.EXIT_CODE) -> Json:
    return manifest(template, parsed(gate_run()), "smoke", report)


class TestNames:
    def test_a_short_name_is_run_and_check(self) -> None:
        assert job_name(RUN, "smoke") == "checkout-0123456789-1-1-smoke"

    def test_a_long_name_is_cut_and_told_apart_by_a_hash(self) -> None:
        run = f"{'r' * 52}-0123456789-12-3"
        names = {job_name(run, check) for check in ("smoke", "smoke2", "c" * 63)}
        assert len(names) == 3
        assert all(len(name) == 63 for name in names)
        assert job_name(run, "smoke") in names, "the same each time"

    def test_what_is_left_of_a_cut_name_ends_as_a_name_may(self) -> None:
        cut = bounded("a" * 51 + "-." + "b" * 40)
        assert cut.startswith("a" * 51 + "-") and "-." not in cut and "--" not in cut

    def test_63_characters_stay(self) -> None:
        assert bounded("a" * 63) == "a" * 63 and len(bounded("a" * 64)) == 63


class TestManifest:
    def test_the_template_stays_as_it_is(self) -> None:
        pod = {"serviceAccountName": "smoke", "restartPolicy": "OnFailure", "containers": [{"name": "a"}]}
        template = cron_job(
            backoffLimit=4, activeDeadlineSeconds=60, ttlSecondsAfterFinished=30, template={"spec": pod}
        )
        spec = made(template)["spec"]
        assert {key: spec[key] for key in spec if key != "template"} == {
            "backoffLimit": 4,
            "activeDeadlineSeconds": 60,
            "ttlSecondsAfterFinished": 30,
        }
        assert spec["template"]["spec"]["restartPolicy"] == "OnFailure"
        assert spec["template"]["spec"]["serviceAccountName"] == "smoke"
        assert "env" not in template["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0], (
            "the CronJob as it was read is not written into"
        )

    def test_it_carries_whose_it_is_and_goes_with_its_run(self) -> None:
        body = made(cron_job())
        assert (body["apiVersion"], body["kind"]) == ("batch/v1", "Job")
        assert body["metadata"] == {
            "name": NAME,
            "namespace": "shop",
            "labels": {
                "team": "payments",
                "gatewright.dev/rollout": "checkout",
                "gatewright.dev/run": RUN,
                "gatewright.dev/check": "smoke",
            },
            "annotations": {"note": "kept", "cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [
                {
                    "apiVersion": "gatewright.dev/v1alpha1",
                    "kind": "GateRun",
                    "name": RUN,
                    "uid": "run-uid",
                    "controller": False,
                }
            ],
        }
        assert belongs_to(body, parsed(gate_run()))

    def test_its_pods_do_not_carry_the_rollouts_label(self) -> None:
        """By it, canary pods are found."""
        assert "metadata" not in made(cron_job())["spec"]["template"]

    def test_a_job_of_another_run_does_not_belong_to_this_one(self) -> None:
        run = parsed(gate_run())
        assert not belongs_to({"metadata": {"ownerReferences": [{"uid": "another", "name": RUN}]}}, run)
        assert not belongs_to({"metadata": {}}, run)


class TestEnvironment:
    def test_a_job_is_told_of_its_gate(self) -> None:
        assert environment(parsed(gate_run())) == TOLD

    def test_a_bake_has_no_stable_service(self) -> None:
        bake = gate_run(stage="Bake", step="bake", weight=100)
        del bake["spec"]["stable"]
        told = environment(parsed(bake))
        assert (told["GATEWRIGHT_STEP"], told["GATEWRIGHT_WEIGHT"]) == ("bake", "100")
        assert told["GATEWRIGHT_STABLE_SERVICE"] == ""

    def test_every_container_is_told_before_its_own_variables(self) -> None:
        own = {"name": "TARGET", "value": "http://$(GATEWRIGHT_CANARY_SERVICE)"}
        template = cron_job({"name": "a", "env": [own]}, {"name": "b"})
        pod = template["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        pod["initContainers"] = [{"name": "prepare"}]
        spec = made(template)["spec"]["template"]["spec"]
        ours = [{"name": key, "value": value} for key, value in TOLD.items()]
        assert spec["containers"][0]["env"] == [*ours, own]
        assert spec["containers"][1]["env"] == spec["initContainers"][0]["env"] == ours

    @pytest.mark.parametrize("variable", TOLD)
    def test_a_variable_that_the_template_sets_itself_is_refused(self, variable: str) -> None:
        template = cron_job({"name": "a", "env": [{"name": variable, "value": "mine"}]})
        with pytest.raises(UnusableTemplate) as refused:
            made(template)
        assert str(refused.value) == (
            f"container a of CronJob smoke sets {variable} itself, which Gatewright sets for each gate: "
            "take it out of the template"
        )


@pytest.mark.parametrize("field", ["completions", "parallelism"])
def test_counts_are_taken_from_one_pod(field: str) -> None:
    template = cron_job(**{field: 3})
    assert made(template)["spec"][field] == 3, "exit codes may come from several"
    with pytest.raises(UnusableTemplate, match=rf"runs several pods \({field}: 3\)"):
        made(template, JobReport.COUNTS)
    assert made(cron_job(**{field: 1}), JobReport.COUNTS)["spec"][field] == 1
