"""Who acts in the demo: each with a client certificate, and with the rights that ``people.yaml`` gives to its name."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.instance import Instance

NAMESPACE = "shop"
DEVELOPER = "developer-a"
REVIEWER = "reviewer-a"
OTHER_REVIEWER = "reviewer-b"
_SECONDS = 90.0


@dataclass(frozen=True)
class Person:
    """Somebody with a kubeconfig, who types commands."""

    name: str
    kubeconfig: Path
    kubectl_program: Path

    def kubectl(self, *args: str) -> str:
        """What kubectl printed. Raises DevclusterError with its complaint."""
        return self._run([str(self.kubectl_program), *args])

    def gate(self, *args: str) -> str:
        """What ``kubectl gate …`` printed. Raises DevclusterError with its complaint."""
        return self._run([sys.executable, "-m", "gatewright_cli", *args])

    def _run(self, command: Sequence[str]) -> str:
        # By the environment and not by a flag, so that the commands it proposes are those that anybody would type.
        environment = os.environ | {
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECTL": str(self.kubectl_program),
            # kubectl keeps what it learned of a server in the user's home, under the port: this one is gone soon.
            "KUBECACHEDIR": str(self.kubeconfig.parent / "kubectl-cache"),
        }
        try:
            run = subprocess.run(
                [*command, "-n", NAMESPACE],
                env=environment,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DevclusterError(
                f"{self.name}: {' '.join(command)} gave no answer in {_SECONDS:.0f} s."
            ) from error
        if run.returncode != 0:
            said = (run.stderr or run.stdout).strip()
            raise DevclusterError(f"{self.name}: {' '.join(command)} failed: {said}")
        return run.stdout


@dataclass(frozen=True)
class People:
    """All of them."""

    admin: Person
    developer: Person
    reviewer: Person
    other_reviewer: Person

    @classmethod
    def of(cls, cluster: Instance) -> "People":
        """Makes their certificates; their rights come with the manifests."""
        program = cluster.program("kubectl")
        return cls(
            Person("admin", cluster.kubeconfig, program),
            Person(DEVELOPER, cluster.user(DEVELOPER), program),
            Person(REVIEWER, cluster.user(REVIEWER), program),
            Person(OTHER_REVIEWER, cluster.user(OTHER_REVIEWER), program),
        )
