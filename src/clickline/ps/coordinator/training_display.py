"""What is shown of training while it goes on: lines of metrics, in the journal and on the screen, and the bar."""

from __future__ import annotations

from clickline.progress import Watcher
from clickline.ps.coordinator.state.run_state import RunState
from clickline.train.evaluation.metric_lines import TrainingLines
from clickline.train.monitoring.epoch_progress import EpochProgress
from clickline.train.monitoring.journal import Journal

_NO_LIMIT = 1 << 62


class TrainingDisplay:
    """Takes the state's lock itself. Without a journal, before and after a run, it writes no lines."""

    def __init__(self, state: RunState, watcher: Watcher, *, lines: TrainingLines) -> None:
        self._state, self._watcher, self._lines = state, watcher, lines
        self._journal: Journal | None = None
        self._progress = EpochProgress(loss=state.job.train.loss)

    def begin(self, journal: Journal) -> None:
        with self._state.changed:
            self._journal = journal

    def end(self) -> None:
        """Write no more lines: the journal is about to be closed, and reports may still come in."""
        with self._state.changed:
            self._journal = None

    def begin_epoch(self) -> None:
        """The time that is left is counted from here."""
        self._progress.begin()
        with self._state.changed:
            self._lines.begin_epoch(self._state.record.step)

    def end_epoch(self, epoch: int) -> None:
        """Say what is said after an epoch, which counts from 1."""
        with self._state.changed:
            line = self._lines.end_line(epoch)
        if line is not None:
            self._watcher.say(line)

    def write_lines(self, *, end: bool = False) -> None:
        """Write metrics when enough batches have been reported; at the end of an epoch, of whatever is left."""
        state = self._state
        with state.changed:
            reached = _NO_LIMIT if end else self._reached_by_all() if state.lockstep else state.record.step
            while self._journal is not None:
                upto = state.windows.window.due(reached=reached)
                if upto is None:
                    break
                figures = state.windows.window.line(upto)
                step = upto if state.lockstep else state.record.step
                epoch = state.record.epoch + 1
                self._journal.line(kind="train", step=step, epoch=epoch, figures=figures)
                progress = self._progress.text(state.leases.share_done)
                self._watcher.say(self._lines.line(step=step, epoch=epoch, figures=figures, progress=progress))

    def _reached_by_all(self) -> int:
        """Lockstep: the last step that all trainers have reported."""
        reached = self._state.windows.reached
        return min((reached.get(member.client, -1) for member in self._state.members.live("trainer")), default=-1)

    def advance(self) -> None:
        """Move the bar."""
        state = self._state
        with state.changed:
            window = state.windows.window
            share, loss = state.leases.share_done, window.loss
            recent = self._progress.recent_figures(*window.recent())
            figures = {"rows": f"{state.record.rows:,}", "rows/s": f"{window.rate:,.0f}"}
            if loss is not None:
                figures["loss"] = f"{loss:.4f}"
            figures |= {name: f"{value:.4f}" for name, value in recent.items()}
            figures["trainers"] = str(len(state.members.live("trainer")))
        self._watcher.advance(share=share, facts=figures)
