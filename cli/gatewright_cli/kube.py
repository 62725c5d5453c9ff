"""The API server, spoken to through kubectl, so that every way to log in that works for kubectl works here.

`get --raw` and `create --raw` spare kubectl's discovery; the first read of a command goes by
`kubectl get KIND NAME`, because kubectl alone knows which namespace the context means.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gatewright_analysis.names import GROUP, VERSION
from gatewright_cli.errors import AlreadyExists, GateError, NotAllowed, NotFound, Unreachable
from gatewright_cli.flags import KubeFlags

Object = dict[str, Any]
"""A Kubernetes object as JSON: camelCase keys, plain values."""

REQUEST_TIMEOUT = "15s"
"""Of one request where the user gave no `--request-timeout`: a dead address must not hang for minutes."""
PARALLEL = 4
LIST_LIMIT = 500


@dataclass(frozen=True)
class User:
    """Who the API server says we are."""

    name: str
    groups: tuple[str, ...]


def _quoted(token: str) -> str:
    from urllib.parse import quote  # on no path but that of lists with several pages

    return quote(token, safe="")


def path(kind: str, namespace: str | None, name: str = "", query: str = "") -> str:
    """URL path of one of our kinds (plural, such as `rollouts`), or of `configmaps` and `deployments`.

    Names must be names of Kubernetes objects: they stand in the path as they are.
    """
    base = {"configmaps": "/api/v1", "deployments": "/apis/apps/v1"}.get(kind, f"/apis/{GROUP}/{VERSION}")
    scope = "" if namespace is None else f"/namespaces/{namespace}"
    leaf = f"/{name}" if name else ""
    return f"{base}{scope}/{kind}{leaf}{'?' + query if query else ''}"


@dataclass(frozen=True)
class Kube:
    """kubectl with the user's flags. Every method raises GateError with kubectl's sentence."""

    flags: KubeFlags
    binary: str

    @classmethod
    def of(cls, flags: KubeFlags) -> "Kube":
        return cls(flags, os.environ.get("KUBECTL") or "kubectl")

    def rollout(self, name: str) -> Object:
        """The Rollout in the namespace that the user means: `-n`, else the context's."""
        return self._one(self._named("rollouts", name))

    def rollouts_here(self) -> list[Object]:
        """All Rollouts of the namespace that the user means."""
        items: list[Object] = self._one(self._named("rollouts", None)).get("items", [])
        return items

    def namespace(self) -> str:
        """The namespace that the user means, by name: `-n`, else the context's, else `default`."""
        if self.flags.namespace is not None:
            return self.flags.namespace
        contexts = self._one(["config", "view", "--minify", "-o", "json"]).get("contexts") or [{}]
        return str((contexts[0].get("context") or {}).get("namespace") or "default")

    def get(self, raw_path: str) -> Object:
        return self._one(["get", "--raw", raw_path])

    def get_all(self, raw_paths: Sequence[str]) -> list[Object | GateError]:
        """Several reads at once; each answer is the object or the error, in order."""
        return self._several([(["get", "--raw", raw_path], None) for raw_path in raw_paths])

    def list_all(self, raw_path: str, page: int = LIST_LIMIT) -> list[Object]:
        """All of a list, `page` objects at a time; `raw_path` may carry a query."""
        items: list[Object] = []
        token = ""
        while True:
            joint = "&" if "?" in raw_path else "?"
            following = f"&continue={_quoted(token)}" if token else ""
            answer = self.get(f"{raw_path}{joint}limit={page}{following}")
            items += answer.get("items", [])
            token = answer.get("metadata", {}).get("continue", "")
            if not token:
                return items

    def create(self, raw_path: str, manifest: Object) -> Object:
        """Create; unknown fields are refused. Raises NotAllowed with the refusing policy's own sentence."""
        return self._one(["create", "--raw", f"{raw_path}?fieldValidation=Strict", "-f", "-"], manifest)

    def whoami_and_rollout(self, name: str) -> tuple[User, Object]:
        """Two answers for the time of one."""
        answers = self._several(
            [(["auth", "whoami", "-o", "json"], None), (self._named("rollouts", name), None)]
        )
        me, rollout = (_or_raise(answer) for answer in answers)
        info = me.get("status", {}).get("userInfo", {})
        return User(info.get("username", ""), tuple(info.get("groups", ()))), rollout

    def allowed(self, asked: Iterable[Object]) -> list[bool | None]:
        """What `kubectl auth can-i` asks, for each of these resourceAttributes; None where there was no answer."""
        answers = self._several([_may_i(each) for each in asked])
        return [_allowed(answer) for answer in answers]

    def me_and_may(self, verb: str, rollouts: Iterable[tuple[str, str]]) -> tuple[str, list[bool | None]]:
        """The caller's name (empty where the API server did not say), and of each of these Rollouts, as (namespace, name),
        whether they may `verb` it: None where it did not say."""
        me, *answers = self._several(
            [
                (["auth", "whoami", "-o", "json"], None),
                *(
                    _may_i(
                        {
                            "verb": verb,
                            "group": GROUP,
                            "resource": "rollouts",
                            "namespace": namespace,
                            "name": name,
                        }
                    )
                    for namespace, name in rollouts
                ),
            ]
        )
        info = {} if isinstance(me, GateError) else me.get("status", {}).get("userInfo", {})
        return str(info.get("username", "")), [_allowed(answer) for answer in answers]

    def names(self, argv: list[str]) -> list[str]:
        """What kubectl lists with `-o name`, without the kind."""
        process, _ = self._start([*argv, "-o", "name"], None)
        out, err = process.communicate()
        if process.returncode != 0:
            raise explain(err)
        return [line.rpartition("/")[2] for line in out.split()]

    def _named(self, kind: str, name: str | None) -> list[str]:
        namespace = [] if self.flags.namespace is None else [f"--namespace={self.flags.namespace}"]
        return [
            "get",
            f"{kind}.{VERSION}.{GROUP}",
            *([] if name is None else [name]),
            "-o",
            "json",
            *namespace,
        ]

    def _one(self, argv: list[str], body: Object | None = None) -> Object:
        return _or_raise(self._several([(argv, body)])[0])

    def _several(self, calls: Sequence[tuple[list[str], Object | None]]) -> list[Object | GateError]:
        answers: list[Object | GateError] = []
        for start in range(0, len(calls), PARALLEL):
            running = [self._start(argv, body) for argv, body in calls[start : start + PARALLEL]]
            answers += [_answer(process, body) for process, body in running]
        return answers

    def _start(self, argv: list[str], body: Object | None) -> tuple[subprocess.Popen[str], Object | None]:
        patience = [] if self.flags.has("--request-timeout") else [f"--request-timeout={REQUEST_TIMEOUT}"]
        try:
            process = subprocess.Popen(
                [self.binary, *argv, *patience, *self.flags.argv],
                # Without a body, standard input stays ours: a login plugin may ask for a password.
                stdin=None if body is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env=_environment(),
            )
        except OSError as error:
            raise GateError(
                f"{self.binary} does not run ({error.strerror}). Put kubectl on the PATH, or say where it is.",
                then="export KUBECTL=/path/to/kubectl",
            ) from error
        return process, body


def _environment() -> dict[str, str]:
    """Ours; but the self-contained build's own libraries are not for kubectl, nor for what it calls to log in.

    GOGC: collecting garbage often is a fifth of what a short kubectl costs (measured); rarely is enough, whoever says
    otherwise is heard.
    """
    environment = {"GOGC": "400", **os.environ}
    if not getattr(sys, "frozen", False):
        return environment
    for key in list(environment):
        if key in ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH_ORIG") or key.startswith("_PYI_"):
            del environment[key]
    if "LD_LIBRARY_PATH_ORIG" in os.environ:
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH_ORIG"]
    return environment


_ACCESS_REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def _access(attributes: Object) -> Object:
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }


def _may_i(attributes: Object) -> tuple[list[str], Object]:
    """The call that asks the API server about the caller's own right."""
    return ["create", "--raw", _ACCESS_REVIEW, "-f", "-"], _access(attributes)


def _allowed(answer: Object | GateError) -> bool | None:
    return None if isinstance(answer, GateError) else bool(answer.get("status", {}).get("allowed"))


def _answer(process: subprocess.Popen[str], body: Object | None) -> Object | GateError:
    out, err = process.communicate(None if body is None else json.dumps(body))
    if process.returncode != 0:
        return explain(err)
    try:
        answer = json.loads(out)
    except ValueError:
        return GateError(f"kubectl did not answer with JSON but with: {out[:200]!r}")
    return answer if isinstance(answer, dict) else GateError(f"kubectl answered with a bare {answer!r}.")


def _or_raise(answer: Object | GateError) -> Object:
    if isinstance(answer, GateError):
        raise answer
    return answer


_DENIED = re.compile(r"denied request: (.+?)(?=, ValidatingAdmissionPolicy '|$)", re.MULTILINE)
_NOISE = re.compile(r"Warning: |[IWE]\d{4} ")
"""Warnings of the API server, and klog lines, which kubectl prints beside the error itself."""
_NO_NETWORK = re.compile(
    r"connection to the server .* was refused|Unable to connect|i/o timeout|no such host|"
    r"connection reset|TLS handshake|Client\.Timeout|context deadline|ServiceUnavailable|\(Timeout\)|"
    r"TooManyRequests|\(InternalError\)|http2: |EOF",
    re.IGNORECASE,
)


def explain(stderr: str) -> GateError:
    """kubectl's complaint as the error that says what can be done about it."""
    lines = [line for line in stderr.strip().splitlines() if line and not _NOISE.match(line)]
    text = "\n".join(lines) or stderr.strip() or "kubectl failed without a word."
    denied = _DENIED.findall(stderr)
    if denied:
        return NotAllowed(" ".join(sentence.strip() for sentence in denied))
    if "(Forbidden)" in text or "(Unauthorized)" in text:
        return NotAllowed(_bare(text), then="kubectl auth whoami")
    if "the server could not find the requested resource" in text or "doesn't have a resource type" in text:
        return NotFound(
            f"The API server does not know {GROUP}: Gatewright is not installed in this cluster.",
            then="kubectl api-resources --api-group=gatewright.dev",
        )
    if "(AlreadyExists)" in text:
        return AlreadyExists(_bare(text))
    if "(NotFound)" in text:
        return NotFound(_bare(text), then="kubectl gate get -A" if f"rollouts.{GROUP}" in text else "")
    if _NO_NETWORK.search(text):
        return Unreachable(_bare(text), then="kubectl cluster-info")
    contexts = "kubectl config get-contexts" if "context" in text or "kubeconfig" in text.lower() else ""
    return GateError(_bare(text), then=contexts)


def _bare(text: str) -> str:
    """Without kubectl's prefix, as a sentence."""
    sentence = re.sub(r"^(Error from server( \(\w+\))?|error): ", "", text)
    sentence = re.sub(r'^error when creating "[^"]*": ', "", sentence)
    return sentence if sentence.endswith((".", "?", "!")) else sentence + "."
