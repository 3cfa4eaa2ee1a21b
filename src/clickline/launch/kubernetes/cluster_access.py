"""Where the API server is and how to show who we are: of the pod we run in, or by a kubeconfig as kubectl reads it.

KUBECONFIG comes first, then the service account of a pod, then ~/.kube/config. Secrets are read when they are needed
and never shown.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from clickline.config.loading.yaml_lines import UnreadableError, parse
from clickline.errors import JobError
from clickline.net.addresses import url_of

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LIMIT = 4 << 20
_PLUGIN_TIMEOUT = 60.0
_REMEDY = "set KUBECONFIG to a file that names the cluster, as kubectl has it"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """How one cluster is reached."""

    server: str
    namespace: str = "default"
    """Where things are made unless another is named."""
    authority: str = ""
    """Certificates of the authority in PEM; the system's if empty."""
    insecure: bool = False
    server_name: str = ""
    """The name that the server's certificate is for, where the address has another."""
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    """Read for each request: tokens of service accounts are renewed in their files."""
    certificate: str = field(default="", repr=False)
    """The client's, in PEM, with its key."""
    proxy: str = ""
    in_pod: bool = False
    source: str = ""
    """For messages: where this was read."""

    def bearer_token(self) -> str:
        """The token to show now; empty if there is none."""
        if self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise JobError(f"{self.source}: the token {self.token_file} cannot be read: {error.strerror}") from None

    def ssl_context(self) -> ssl.SSLContext:
        """What to trust, and what to show."""
        try:
            context = ssl.create_default_context(cadata=self.authority or None)
            if self.insecure:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if self.certificate:
                # Python's ssl loads certificates from files only.
                with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
                    file.write(self.certificate)
                    file.flush()
                    context.load_cert_chain(file.name)
        except (ssl.SSLError, ValueError) as error:
            raise JobError(f"{self.source}: its certificates cannot be used: {error}") from None
        return context


def find_cluster(environ: Mapping[str, str] | None = None, *, account: Path = ACCOUNT) -> ClusterAccess:
    """The cluster of KUBECONFIG, of the pod that this process runs in, or of ~/.kube/config. Raises JobError."""
    env = os.environ if environ is None else environ
    if named := env.get("KUBECONFIG", ""):
        return _of_files([Path(part) for part in named.split(os.pathsep) if part], source=f"KUBECONFIG={named}")
    if env.get("KUBERNETES_SERVICE_HOST") and (account / "token").exists():
        return _of_pod(env, account)
    home = Path(env.get("HOME", "~")).expanduser() / ".kube" / "config"
    if home.exists():
        return _of_files([home], source=str(home))
    raise JobError(f"no cluster is known: KUBECONFIG is not set, this is no pod, and there is no {home}; {_REMEDY}")


def _of_pod(env: Mapping[str, str], account: Path) -> ClusterAccess:
    authority, namespace = account / "ca.crt", account / "namespace"
    return ClusterAccess(
        server=url_of(env["KUBERNETES_SERVICE_HOST"], int(env.get("KUBERNETES_SERVICE_PORT") or 443), scheme="https"),
        namespace=namespace.read_text(encoding="utf-8").strip() if namespace.exists() else "default",
        authority=authority.read_text(encoding="utf-8") if authority.exists() else "",
        token_file=account / "token",
        in_pod=True,
        source="the pod's service account",
    )


def _of_files(files: list[Path], *, source: str) -> ClusterAccess:
    """The current context of kubeconfigs; of two entries of one name the first counts, as for kubectl."""
    merged: dict[str, Any] = {"current-context": "", "contexts": {}, "clusters": {}, "users": {}}
    for file in files:
        # Of several files kubectl does without those that are not there; a single one that is missing is a mistake.
        if not file.exists() and len(files) > 1:
            continue
        tree = _read(file)
        merged["current-context"] = merged["current-context"] or tree.get("current-context") or ""
        for kind in ("contexts", "clusters", "users"):
            for entry in tree.get(kind) or ():
                if isinstance(entry, dict) and "name" in entry:
                    merged[kind].setdefault(entry["name"], (entry.get(kind[:-1]) or {}, file.parent))
    name = merged["current-context"]
    if name not in merged["contexts"]:
        known = ", ".join(map(repr, merged["contexts"])) or "none"
        raise JobError(
            f"{source}: current-context is {name!r}, and the contexts there are: {known}; choose one with "
            "`kubectl config use-context NAME`"
        )
    context, _ = merged["contexts"][name]
    for kind, key in (("clusters", "cluster"), ("users", "user")):
        if context.get(key) not in merged[kind]:
            raise JobError(f"{source}: context {name!r} names the {key} {context.get(key)!r}, which is not there")
    cluster, beside = merged["clusters"][context["cluster"]]
    user, user_beside = merged["users"][context["user"]]
    if not cluster.get("server"):
        raise JobError(f"{source}: cluster {context['cluster']!r} has no server")
    access = ClusterAccess(
        server=str(cluster["server"]).rstrip("/"),
        namespace=context.get("namespace") or "default",
        authority=_content(cluster, "certificate-authority", beside, source),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name") or "",
        proxy=cluster.get("proxy-url") or "",
        source=source,
    )
    return _with_user(access, user, user_beside, name=context["user"], cluster=cluster)


def _with_user(
    access: ClusterAccess, user: dict[str, Any], beside: Path, *, name: str, cluster: dict[str, Any]
) -> ClusterAccess:
    source = access.source
    certificate = _content(user, "client-certificate", beside, source)
    key = _content(user, "client-key", beside, source)
    if bool(certificate) != bool(key):
        raise JobError(f"{source}: user {name!r} has a client certificate without its key, or the reverse")
    if certificate:
        access = replace(access, certificate=f"{certificate}\n{key}\n")
    # kubectl's order: a file of a token goes before the token, and both before a plugin.
    if user.get("tokenFile"):
        return replace(access, token_file=beside / user["tokenFile"])
    if user.get("token"):
        return replace(access, token=str(user["token"]))
    if user.get("exec"):
        return _of_plugin(access, user["exec"], cluster)
    unsupported = [key for key in ("auth-provider", "username") if user.get(key)]
    if unsupported and not certificate:
        raise JobError(
            f"{source}: user {name!r} logs in by {unsupported[0]}, which Kubernetes itself has given up: expected a "
            "token, a client certificate or an exec plugin"
        )
    return access


def _of_plugin(access: ClusterAccess, plugin: dict[str, Any], cluster: dict[str, Any]) -> ClusterAccess:
    """Ask the command that the kubeconfig names, as kubectl does: clouds log in by it."""
    words = [str(plugin.get("command") or ""), *map(str, plugin.get("args") or ())]
    version = plugin.get("apiVersion") or "client.authentication.k8s.io/v1"
    spec: dict[str, Any] = {"interactive": False}
    if plugin.get("provideClusterInfo"):
        spec["cluster"] = {**cluster, "server": access.server}
    request = {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
    own = {str(entry["name"]): str(entry["value"]) for entry in plugin.get("env") or ()}
    env = {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(request)}
    said = f"{access.source}: the login command {words[0]!r}"
    try:
        ended = subprocess.run(  # noqa: S603  (the command of the user's own kubeconfig)
            words, env=env, capture_output=True, text=True, timeout=_PLUGIN_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        hint = f"; {plugin['installHint'].strip()}" if plugin.get("installHint") else ""
        raise JobError(f"{said} cannot be run: {error}{hint}") from None
    if ended.returncode:
        raise JobError(f"{said} ended with {ended.returncode}: {ended.stderr.strip()[-500:]}")
    try:
        status = json.loads(ended.stdout)["status"]
        token, certificate = status.get("token") or "", status.get("clientCertificateData") or ""
        key = status.get("clientKeyData") or ""
    except (ValueError, KeyError, AttributeError, TypeError):
        raise JobError(f"{said} has not printed an ExecCredential with a status") from None
    return replace(access, token=token, certificate=f"{certificate}\n{key}\n" if certificate else access.certificate)


def _content(entry: dict[str, Any], key: str, beside: Path, source: str) -> str:
    """What `KEY-data` holds, or the file that `KEY` names."""
    try:
        if data := entry.get(f"{key}-data"):
            return base64.b64decode(data, validate=True).decode()
        return (beside / entry[key]).read_text(encoding="utf-8") if entry.get(key) else ""
    except (OSError, ValueError) as error:
        raise JobError(f"{source}: {key} cannot be read: {error}") from None


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _LIMIT:
            raise JobError(f"{file}: larger than {_LIMIT} bytes; not a kubeconfig")
        tree = parse(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, UnreadableError) as error:
        raise JobError(f"{file}: cannot be read as a kubeconfig: {error}; {_REMEDY}") from None
    if not isinstance(tree.value, dict):
        raise JobError(f"{file}: not a kubeconfig; {_REMEDY}")
    return tree.value
