"""Draws the events of `clickline.up`: a progress bar and lines on a terminal, lines elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clickline.launch.stack import stack_events as events
from clickline.launch.suite_description import REPLICAS, SHARDS

if TYPE_CHECKING:
    from clickline.progress import Watcher

_CUBE = f"{SHARDS} shards × {REPLICAS} replicas"
_TITLES = {
    events.Stage.STARTING: f"starting file server, cube ({_CUBE}), transfer, predictor",
    events.Stage.FIRST_VERSION: "waiting for the predictor",
    events.Stage.MEASURING: "predicting all test rows through the server",
}
"""Of stages that have one bar; training and publishing title their own tasks."""


class UpProgress:
    """Turns each event into what a watcher shows."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._delivering = 0
        """The version that the bar is about; 0: none."""

    def __call__(self, event: events.StackEvent) -> None:
        watcher = self._watcher
        match event:
            case events.StageStarted(stage):
                if stage in _TITLES:
                    watcher.begin(_TITLES[stage])
            case events.StageEnded():
                self._delivering = 0
                watcher.end()
            case events.TaskStarted(title):
                watcher.begin(title)
            case events.TaskAdvanced(share, figures):
                watcher.advance(share=share, facts=figures)
            case events.TaskEnded():
                watcher.end()
            case events.DemoDataProgress(0, rows):
                watcher.begin(f"making {rows:,} rows of demo data")
            case events.DemoDataProgress(done, rows):
                watcher.advance(share=done / rows, facts={"rows": f"{done:,}"})
            case events.ProcessStarted(name, started, expected):
                watcher.advance(share=started / expected, facts={"started": name})
            case events.DeliveryProgress():
                self._delivery(event)
            case events.MeasuringProgress(rows, total, version):
                share = min(1.0, rows / total) if total else None
                watcher.advance(share=share, facts={"rows": f"{rows:,}", "version": version})
            case _:
                watcher.say(_sentence(event))

    def _delivery(self, event: events.DeliveryProgress) -> None:
        if self._delivering != event.version:
            self._delivering = event.version
            self._watcher.begin(f"delivering version {event.version} to {_CUBE}")
        steps = {"downloaded": event.downloaded, "loaded": event.loaded, "switched": event.switched}
        self._watcher.advance(
            share=sum(steps.values()) / (len(steps) * event.servers),
            facts={step: f"{done}/{event.servers}" for step, done in steps.items()},
        )


def _sentence(event: events.StackEvent) -> str:
    """An event that is one line for people."""
    match event:
        case events.DemoDataKept(rows):
            return f"demo data: {rows:,} rows are there from before"
        case events.RunKept(directory, rows):
            return f"trained before, {rows:,} rows: {directory} is taken as it is (--fresh trains anew)"
        case events.RunResumed(directory, step):
            return f"going on with {directory} from step {step:,} (--fresh starts over)"
        case events.VersionKept(version, store):
            return f"published before: version {version} of {store} is the one to serve"
        case events.DirectoryDiscarded(directory):
            return f"throwing away {directory}"
        case events.DeliveryProblem(text):
            return f"transfer: {text}"
        case events.NoTestData():
            return "the job names no test data, so no AUC is measured (data.test)"
        case events.VersionSwitched(version, before):
            return f"version {version} is in service, after {before}"
        case events.Note(text):
            return text
        case _:
            return str(event)
