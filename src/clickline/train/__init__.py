"""Training: the loop, metrics, checkpoints.

`clickline.train(job)` trains, and `clickline.train` is this package. Python binds a package's name in its parent
whenever anything inside is imported, so a function of the same name would come and go with the order of imports.
Hence the package itself can be called, and a call goes to `clickline.train.api.train`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return import_module("clickline.train.api").train(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
