"""What is known of a model without its network: the base of the classes in `zoo_signatures.py`."""

from __future__ import annotations

from typing import ClassVar


class ModelSignature:
    """A model's `__init__` and what follows from its class alone. Only the class is used: it has no instances."""

    several_labels: ClassVar[bool] = False
    """As the model says."""
    tables: ClassVar[tuple[str, ...] | None] = None
    """Kinds of tables it has, if every job with a slot that is no sequence can build it; None: build it to find out."""
    slot_parameters: ClassVar[tuple[str, ...]] = ()
    """Parameters that name slots. A job that gives one may name a slot that is not there: build it to find out."""
