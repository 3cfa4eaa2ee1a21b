"""The strategies by the names that a job gives them."""

from __future__ import annotations

from clickline.ps.trainer.strategies.async_ import Async
from clickline.ps.trainer.strategies.base import TrainerStrategy
from clickline.ps.trainer.strategies.geo import Geo
from clickline.ps.trainer.strategies.half_async import HalfAsync
from clickline.ps.trainer.strategies.sync import Sync

STRATEGIES: dict[str, type[TrainerStrategy]] = {"async": Async, "half_async": HalfAsync, "sync": Sync, "geo": Geo}
