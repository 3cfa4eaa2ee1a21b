"""Data of a run in pods: a few small files in a ConfigMap, with the reader that they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.training import gated_data
from support.training.gated_data import gated_settings, write_gated


class PodData:
    """Files of equally many rows, the last of which are held in the middle until a test lets them go."""

    SEEN_AT = "/data"
    GATE = "/tmp/gate"  # noqa: S108  (in a pod, where it is a volume of its own)

    def __init__(self, directory: Path, *, files: int = 8, rows: int = 200, held: int = 1, nap: float = 0.0) -> None:
        """`nap`: seconds that a trainer sleeps before each file that is not held, so that a run lasts."""
        self.directory, self.rows = directory, files * rows
        free = {number: (0, f"SLEEP {nap}") for number in range(files - held) if nap}
        gates = dict.fromkeys(range(files - held, files), (0, f"WAIT {self.GATE}"))
        self._pattern = Path(write_gated(directory, files=files, rows=rows, orders={**free, **gates}))

    @property
    def settings(self) -> dict[str, Any]:
        """Of the job file; in pods, the files and the reader are side by side."""
        settings = gated_settings({}, f"{self.SEEN_AT}/{self._pattern.name}")
        settings["data"]["format"] = f"{self.SEEN_AT}/{Path(gated_data.__file__).name}:Gated"
        return settings

    def files(self) -> dict[str, str]:
        """Contents by name."""
        found = [Path(gated_data.__file__), *sorted(self.directory.glob(self._pattern.name))]
        return {file.name: file.read_text(encoding="utf-8") for file in found}
