"""backend.yaml of PaddleRec: the cluster that a config.yaml is submitted to.

What of it is about the run (how many processes, flags of the communicator) becomes keys of the job; the rest is about
the submission. Credentials are never printed: what is written out in the file works, with a notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from clickline.compat.paddlerec.reading import value_types as values
from clickline.config.loading.cross_checks import Contradiction, CrossChecked, mapping_at, text_at
from clickline.config.loading.suggestions import suggestion
from clickline.config.section import Section

BACKENDS = ("paddlecloud", "kubernetes", "k8s", "ssh", "mpi", "ray", "local")
_INSTALLED = values.NotCarried("nodes have the Clickline that is installed there")


class CommunicatorFlags(Section):
    """config.communicator."""

    FLAGS_communicator_is_sgd_optimizer: values.Whole | None = None
    """Nothing: how gradients merge does not depend on the optimizer."""
    FLAGS_communicator_send_queue_size: values.Positive | None = None
    """async: `cluster.agree.send_queue`."""
    FLAGS_communicator_max_merge_var_num: values.Positive | None = None
    """half_async: `cluster.agree.merge`."""
    FLAGS_communicator_max_send_grad_num_before_recv: values.Whole | None = None
    """Nothing: PaddlePaddle never read it; …min_send… it is."""
    FLAGS_communicator_min_send_grad_num_before_recv: values.Positive | None = None
    """async, half_async: `cluster.agree.dense_every`."""
    FLAGS_communicator_thread_pool_size: values.Whole | None = None
    """Nothing: each request has its own connection and thread."""
    FLAGS_communicator_fake_rpc: values.Whole | None = None
    """Nothing: PaddlePaddle never read it."""
    FLAGS_rpc_retry_times: values.Whole | None = None
    """Nothing: requests are tried again for `cluster.retry_for` seconds."""
    FLAGS_rpc_deadline: values.Positive | None = None
    """`cluster.deadline`, in milliseconds here."""

    @property
    def given(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in type(self).model_fields if getattr(self, name) is not None}


class BackendConfig(Section):
    """The section `config`."""

    paddle_version: Annotated[values.Text, _INSTALLED] = "1.7.2"
    """Nothing: nodes have the Clickline that is installed there."""
    use_python3: Annotated[values.Switch, _INSTALLED] = False
    """Nothing, as `paddle_version`."""
    fs_name: values.Text
    """File system of the paths below; of the submission."""
    fs_ugi: values.Credential
    """Its user and password; of the submission."""
    output_path: values.Text = ""
    """Where the run's directory is copied to; of the submission."""
    train_data_path: values.Text | None = None
    """mpi: fetched to ./train_data; of the submission."""
    test_data_path: values.Text = ""
    """mpi: fetched to ./test_data; of the submission."""
    thirdparty_path: values.Text = ""
    """mpi: fetched to ./thirdparty; of the submission."""
    afs_remote_mount_point: values.Text | None = None
    """k8s: mounted at ./afs; of the submission."""
    communicator: CommunicatorFlags = CommunicatorFlags()
    """See below."""


class SubmitSettings(Section):
    """The section `submit`."""

    ak: values.Credential
    """A credential; of the submission."""
    sk: values.Credential
    """A credential; of the submission."""
    priority: Annotated[Literal["normal", "high", "very_high"], values.Lower] = "high"
    """Of the submission."""
    job_name: values.NotEmpty
    """The job's `name`."""
    group: values.Text
    """Of the submission."""
    start_cmd: values.NotEmpty
    """Of the submission."""
    files: values.NotEmpty
    """Files that each node gets; of the submission."""
    nodes: values.Positive = 1
    """mpi: `cluster.pservers` and `cluster.trainers`, one of each on a node."""
    k8s_trainers: values.Positive = 1
    """k8s: `cluster.trainers`."""
    k8s_cpu_cores: values.Positive | None = None
    """k8s: cores of a trainer; of the submission."""
    k8s_gpu_card: values.Positive = 1
    """k8s: ranks on a node: `cluster.trainers` is so many times `k8s_trainers`."""
    k8s_ps_num: values.Positive = 1
    """k8s: `cluster.pservers`."""
    k8s_ps_cores: values.Positive | None = None
    """k8s: cores of a server; of the submission."""


class Backend(CrossChecked):
    """The whole file."""

    backend: Annotated[str, Field(min_length=1), values.Lower]
    """PaddleCloud stands for what `cluster_type` says, since the platform itself is closed."""
    cluster_type: Annotated[Literal["mpi", "k8s"], values.Lower]
    """mpi or k8s."""
    config: BackendConfig
    """See below."""
    submit: SubmitSettings
    """See below."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Contradiction]:
        backend, config = text_at(given, "backend"), mapping_at(given, "config")
        if backend is not None and backend.strip().lower() not in BACKENDS:
            known = suggestion(backend, ("PaddleCloud", *BACKENDS[1:]), kind="backends")
            yield ("backend",), f"no backend {backend!r} here; {known}"
        cluster = (text_at(given, "cluster_type") or "").lower()
        if config and cluster == "mpi" and "train_data_path" not in config:
            yield ("config", "train_data_path"), "missing; mpi fetches the training data from there"
        if config and cluster == "k8s" and "afs_remote_mount_point" not in config:
            yield ("config", "afs_remote_mount_point"), "missing; k8s mounts the data from there"
