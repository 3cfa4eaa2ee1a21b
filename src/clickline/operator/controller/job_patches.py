"""Changes of a job as JSON merge patches, which leave alone what somebody else has changed."""

from __future__ import annotations

from clickline.operator.job.fields import KubernetesObject


def merge_patch(old: KubernetesObject, new: KubernetesObject) -> KubernetesObject:
    """The JSON merge patch that makes `new` of `old`."""
    patch: KubernetesObject = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            if inner := merge_patch(before, value):
                patch[key] = inner
        elif before != value:
            patch[key] = value
    return patch
