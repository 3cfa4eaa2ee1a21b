"""`clickline operator`: runs PaddleJobs on Kubernetes."""

from __future__ import annotations

from typing import Annotated

import typer


def operator(
    namespace: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Watch this namespace only; may be repeated.")
    ] = None,
    scheduling: Annotated[
        str, typer.Option(metavar="volcano", help="Have the pods of a job scheduled as one gang by Volcano.")
    ] = "",
    health: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Answer /metrics, /healthz and /readyz there; empty: nowhere.")
    ] = "",
    lease: Annotated[
        str,
        typer.Option(metavar="NAMESPACE/NAME", help="Of several operators only the one with this Lease works."),
    ] = "",
    lease_seconds: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="After which another one takes over from one that is gone.")
    ] = 15.0,
    retry_delay: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Before a failed pod is replaced; doubles each time.")
    ] = 10.0,
    completing: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="For servers to end after the last worker has succeeded.")
    ] = 60.0,
    progress_every: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Between two looks at how far running jobs are; 0: never.")
    ] = 5.0,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each request.")] = False,
) -> None:
    """Run PaddleJobs on Kubernetes: makes their pods, restarts and scales them, keeps their status, cleans up.

    Needs `pip install 'clickline[kubernetes]'` and deploy/v1/crd.yaml in the cluster. The cluster is that of the pod it
    runs in, else that of KUBECONFIG.

    Example: clickline operator --namespace training
    """
    from clickline.errors import JobError

    try:
        import kopf
    except ImportError:
        raise JobError("the operator needs kopf: pip install 'clickline[kubernetes]'") from None
    from clickline.operator.controller.operator_process import OperatorOptions, run_operator
    from clickline.operator.reconcile.plan import ReconcileSettings

    if scheduling not in ("", "volcano"):
        raise JobError(f"--scheduling: {scheduling!r} is not known; expected is volcano, or nothing")
    kopf.configure(verbose=verbose)
    settings = ReconcileSettings(scheduling=scheduling, retry_delay=retry_delay, completing_seconds=completing)
    run_operator(
        OperatorOptions(
            namespaces=namespace or (),
            health=health,
            lease=lease,
            lease_seconds=lease_seconds,
            progress_every=progress_every,
            reconcile=settings,
        )
    )
