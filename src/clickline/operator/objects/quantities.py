"""Kubernetes' quantities of resources: `500m`, `8Gi`, `1e3`. They are added up exactly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation

from clickline.errors import JobError

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


def quantity(value: int | float | str) -> Decimal:
    """The number that a quantity stands for."""
    text = str(value).strip()
    suffix = next((end for end in sorted(_SUFFIXES, key=len, reverse=True) if text.endswith(end)), "")
    # 1E is a suffix, 1E3 an exponent; the latter does not end with a letter.
    try:
        return Decimal(text.removesuffix(suffix)) * _SUFFIXES.get(suffix, Decimal(1))
    except InvalidOperation:
        raise JobError(
            f"{value!r} is not a quantity of resources; expected is a number such as 4, 500m or 8Gi"
        ) from None


def quantity_text(value: Decimal) -> str:
    """A quantity in Kubernetes' own form: with the largest binary suffix that leaves it whole, or in thousandths."""
    if value != value.to_integral_value():
        return f"{int((value * 1000).to_integral_value(rounding='ROUND_CEILING'))}m"
    for suffix in _BINARY:
        if value and value % _SUFFIXES[suffix] == 0:
            return f"{int(value / _SUFFIXES[suffix])}{suffix}"
    return str(int(value))


def total(resources: Iterable[tuple[Mapping[str, int | str], int]]) -> dict[str, str]:
    """The sum of resources, each of so many pods."""
    sums: dict[str, Decimal] = {}
    for amounts, times in resources:
        for name, amount in amounts.items():
            sums[name] = sums.get(name, Decimal(0)) + quantity(amount) * times
    return {name: quantity_text(amount) for name, amount in sorted(sums.items())}
