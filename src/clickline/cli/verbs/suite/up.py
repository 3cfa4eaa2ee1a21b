"""`clickline up`: the whole chain on this machine: data, training, a version, its delivery, predictions."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickline.cli.shared.output import AsJson, Overrides, errors, print_json, say_note

if TYPE_CHECKING:
    from clickline.cli.shared.served_evaluation import Asking
    from clickline.config import Job
    from clickline.launch.suite import Suite
    from clickline.progress import Watcher
    from clickline.versions.manifest import Manifest

SAMPLES = 5
DEMO_ROWS = 250_000
_LOOK_EVERY = 1.0
"""Seconds between looks at which version is in service, while the suite stays."""


def up(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="A job of your own; the demo if none.")] = None,
    overrides: Overrides = None,
    rows: Annotated[
        int | None, typer.Option(min=1000, help=f"Rows of demo data; {DEMO_ROWS:,} if not said.", show_default=False)
    ] = None,
    state: Annotated[Path, typer.Option(help="Directory for everything that this makes.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the predictor, if it is free; else any.")] = 8010,
    workers: Annotated[
        int, typer.Option(min=1, max=1024, help="Of the predictor: with one of them gone, the others answer.")
    ] = 2,
    stall_after: Annotated[
        float,
        typer.Option(
            min=0,
            max=3600,
            metavar="SECONDS",
            help="Who stands still for so long is killed and started anew; 0: never.",
        ),
    ] = 15.0,
    serve: Annotated[
        Path | None,
        typer.Option(
            "--serve",
            metavar="FILE",
            help="serve.yaml of the predictor: splits, shadows, caches, further models. The suite's own model, ctr, is "
            "added: its store and its cube.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw the run and its versions away; start anew.")] = False,
    once: Annotated[bool, typer.Option("--once", help="End when all is shown, instead of at Ctrl+C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train, publish, deliver and serve on this machine; show predictions and their AUC; stay until Ctrl+C.

    Without a job, demo data is made first. A job that does not say otherwise is trained with 2 parameter servers and 2
    trainers. Then a version is published, and delivered by a file server and transfer to a cube of 2 shards × 2
    replicas, from which a predictor serves it. Called again, it goes on from what the state directory holds: a run that
    has finished is not trained again, an interrupted one is resumed, versions stay.

    Example: clickline up
    """
    from clickline.launch.suite import MODEL
    from clickline.launch.suite_state import claimed
    from clickline.processes.child import stopped_by_signals
    from clickline.progress import Silent, watcher_for
    from clickline.serve.serve_settings import read_suite_config

    watcher = Silent() if as_json else watcher_for(errors())
    with stopped_by_signals(), claimed(state):
        call = _Call(state, watcher)
        if job is not None and rows is not None:
            say_note("--rows has no effect: it is about demo data, and a job is given")
        if serve is not None:  # what is wrong with it is said before anything is trained
            read_suite_config(serve, model=MODEL, store=str(state / "versions"), servers=[["unix:/not-started"]])
        call.prepare(job, rows=rows or DEMO_ROWS, overrides=overrides or [], fresh=fresh)
        call.serve(port=port, workers=workers, stall_after=stall_after, config=serve, once=once, as_json=as_json)


class _Call:
    """One call of `up`, stage by stage."""

    def __init__(self, state: Path, watcher: Watcher) -> None:
        self._state, self._watcher = state, watcher
        self._began, self._started = time.monotonic(), time.time()
        self._facts: dict[str, Any] = {"state": str(state), "best_auc": None}
        self._job: Job
        self._manifest: Manifest

    def prepare(self, path: str | None, *, rows: int, overrides: list[str], fresh: bool) -> None:
        """All that is done before anything is served."""
        from clickline.cli.shared import up_stages
        from clickline.versions.store import open_store

        settings: list[str] = []
        if path is None:
            self._tell("making data")
            file, self._facts["best_auc"] = up_stages.demo_data(self._state, rows, self._watcher)
            path = str(file)
            settings = [f"{key}={value}" for key, value in up_stages.DEMO.items()]
        checked = up_stages.read_chain_job(path, state=self._state, settings=settings, overrides=overrides)
        for notice in checked.notices:
            self._watcher.say(str(notice))
        self._job = checked.job
        if fresh:
            up_stages.throw_away(self._state, self._watcher)
        self._tell("training")
        training = up_stages.train(self._job, fresh=fresh, watcher=self._watcher)
        self._tell("publishing")
        store = self._state / "versions"
        self._manifest = up_stages.publish(training, open_store(str(store)), self._watcher)
        self._facts |= {
            "training": training.how,
            "run": str(training.directory),
            "checkpoint": str(training.checkpoint),
            "rows": training.rows,
            "seconds": training.seconds,
            "test": training.test,
            "store": str(store),
            "version": self._manifest.version,
            "kind": self._manifest.kind,
            "trained_auc": _trained_auc(self._manifest),
        }

    def serve(
        self, *, port: int, workers: int, stall_after: float, config: Path | None, once: bool, as_json: bool
    ) -> None:
        """Start what serves, show what it says, and stay."""
        from clickline.cli.pages.up_page import show
        from clickline.cli.shared.served_evaluation import Asking
        from clickline.launch.suite import Suite

        events = _Events(self._watcher)
        self._watcher.begin("starting file server, cube (2 shards × 2 replicas), transfer, predictor")
        try:
            with Suite(
                self._state, port=port, workers=workers, stall_after=stall_after, serve=config, on_event=events
            ) as suite:
                self._deliver(suite)
                with Asking(suite, label=next(iter(self._manifest.data_schema["labels"]))) as asking:
                    self._ask(suite, asking)
                events.starting = False
                (print_json if as_json else show)(self._facts)
                if not once:
                    self._stay(suite)
        finally:
            self._watcher.end()

    def _deliver(self, suite: Suite) -> None:
        version = self._manifest.version
        self._watcher.begin(f"delivering version {version} to 2 shards × 2 replicas")
        problems = [""]

        def delivered() -> bool:
            info = suite.cube.info()
            told = {what: info.get(f"{key}_inst{'s' * (key != 'download')}") for what, key in _STEPS.items()}
            servers = info.get("inst_num") or 4
            done = sum(int(each or 0) for each in told.values())
            self._watcher.advance(
                share=done / (3 * servers), facts={what: f"{each or 0}/{servers}" for what, each in told.items()}
            )
            if info.get("problem", "") not in problems:
                problems.append(info["problem"])
                self._watcher.say(f"transfer: {info['problem']}")
            held = int(info.get("held") or 0) == version  # somebody rolled the cube back from it, and that stays
            serving = int((info.get("current_version_info") or [{"version": 0}])[0]["version"])
            return not info.get("wait_version_info") and bool(serving) and (held or serving == version)

        suite.until(delivered, what=f"the delivery of version {version}", every=0.1)
        self._watcher.begin("waiting for the predictor")
        suite.until(lambda: bool(suite.http), what="the predictor's first complete version")
        self._watcher.end()

    def _ask(self, suite: Suite, asking: Asking) -> None:
        """Sample rows, then all test rows; what comes back is what `up` is about."""
        from clickline.client.raw_rows import first_rows, raw_rows
        from clickline.data.schema import Schema

        data, schema = self._job.data, Schema.from_dict(self._manifest.data_schema)
        sample = first_rows(data, schema, data.test or data.valid or data.train, SAMPLES)
        answer = asking.ask(sample.instances)
        self._facts |= {
            "first_prediction_seconds": round(time.monotonic() - self._began, 2),
            "samples": [
                {"features": features, "label": float(label), "probability": probability, "version": answer.version}
                for features, label, probability in zip(
                    sample.instances, sample.labels[:, 0], answer.probabilities, strict=True
                )
            ],
            "http": suite.http,
            "model": suite.model,
            "files": suite.files,
            "transfer": suite.cube.url,
            "token_file": str(suite.facts()["token_file"]),
            "components": suite.facts()["components"],
            "served": None,
        }
        if not data.test:
            self._watcher.say("the job names no test data, so no AUC is measured (data.test)")
            return
        self._watcher.begin("predicting all test rows through the server")
        try:
            total = self._facts["test"].get("rows")
            parts = raw_rows(data, schema, data.test)
            served = asking.measure(parts, total=total and int(total), watcher=self._watcher)
            self._facts["served"] = asdict(served)
        finally:
            self._watcher.end()

    def _stay(self, suite: Suite) -> None:
        serving = suite.cube.serving()
        # Asked beside: transfer may stand still, and it is this thread that finds out.
        with ThreadPoolExecutor(1, thread_name_prefix="version") as threads:
            looked, asked = time.monotonic(), threads.submit(suite.cube.serving)
            try:
                while True:
                    suite.poll()
                    if asked.done() and time.monotonic() - looked > _LOOK_EVERY:
                        now = asked.result()
                        if now and now != serving:
                            self._watcher.say(f"version {now} is in service, after {serving}")
                            serving = now
                        looked, asked = time.monotonic(), threads.submit(suite.cube.serving)
                    time.sleep(0.05)
            except KeyboardInterrupt:
                say_note(f"stopping; `clickline up` goes on from {self._state}")

    def _tell(self, phase: str) -> None:
        """Who asks for the status, or wants to stop us, finds us."""
        from clickline.launch.suite_state import supervisor_facts, write_suite

        facts = supervisor_facts(started=self._started)
        write_suite(self._state, {**facts, "phase": phase, "http": None, "components": []})


_STEPS = {"downloaded": "download", "loaded": "reload", "switched": "enable"}


class _Events:
    """What the supervisor has to tell: that processes start is shown as progress, the rest is said."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher, self._started, self.starting = watcher, 0, True

    def __call__(self, text: str) -> None:
        if self.starting and " joins as process " in text:
            self._started += 1
            self._watcher.advance(share=self._started / _PROCESSES, facts={"started": text.partition(" ")[0]})
        else:
            self._watcher.say(text)


_PROCESSES = 11


def _trained_auc(manifest: Manifest) -> float | None:
    """What the trainer measured on its test data, of the model that is served."""
    found = manifest.training.get("figures", {}).get("test", {}).get("auc")
    return None if found is None else float(found)
