"""Vowpal Wabbit: logistic regression on Criteo rows, one pass, 2^22 weights.

    vowpal.py prepare RAW OUT [numbers]        Criteo text → Vowpal Wabbit's text
    vowpal.py prepared TEXT MODEL [OPTION …]   learn from that text, read by Vowpal Wabbit itself (MODEL - keeps none)
    vowpal.py raw RAW SCRATCH [OPTION …]       the same from Criteo text: conversion counted
    vowpal.py score TEST MODEL                 AUC and logloss of a model on prepared text

Every column is a namespace with one feature: a category as it is, an integer v as floor(ln(v)²) when v > 2, and a name
of its own where there is none. `numbers` adds the integers' logarithms as numbers.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator

BASE = ["--loss_function", "logistic", "-b", "22", "--quiet"]
INTEGERS, CATEGORIES = "abcdefghijklm", "nopqrstuvwxyzABCDEFGHIJKLM"
LINE = "%s" + "".join(f" |{namespace} _%s" for namespace in INTEGERS + CATEGORIES)


class Buckets(dict[str, str]):
    """Integer, as written, to bucket; each computed once."""

    def __missing__(self, text: str) -> str:
        value = int(text) if text else 0
        bucket = self[text] = str(int(math.log(value) ** 2)) if value > 2 else text
        return bucket


def lines(raw: str, *, numbers: bool) -> Iterator[str]:
    buckets = Buckets()
    label = {"0": "-1", "1": "1"}
    with open(raw, encoding="ascii") as file:  # noqa: PTH123 - the way a user would write it
        for line in file:
            cells = line[:-1].split("\t")
            text = LINE % (label[cells[0]], *[buckets[cell] for cell in cells[1:14]], *cells[14:])
            yield (text + _numbers(cells) if numbers else text) + "\n"


def _numbers(cells: list[str]) -> str:
    values = ((place, int(cell)) for place, cell in enumerate(cells[1:14]) if cell)
    return " |N" + "".join(f" {p}:{math.copysign(math.log1p(abs(v)), v):.4f}" for p, v in values if v)


def prepare(raw: str, out: str, numbers: str = "") -> dict[str, float]:
    started = time.perf_counter()
    rows = 0

    def counted() -> Iterator[str]:
        nonlocal rows
        for line in lines(raw, numbers=bool(numbers)):
            rows += 1
            yield line

    with open(out, "w", encoding="ascii") as file:  # noqa: PTH123
        file.writelines(counted())
    return {"rows": rows, "seconds": time.perf_counter() - started}


def prepared(text: str, model: str, *options: str) -> dict[str, float]:
    from vowpalwabbit import Workspace

    keep = [] if model == "-" else ["-f", model]
    started = time.perf_counter()
    Workspace(arg_list=["-d", text, *keep, *BASE, *options]).finish()
    return {"seconds": time.perf_counter() - started}


def raw(path: str, scratch: str, *options: str) -> dict[str, float]:
    """Converting the file and letting Vowpal Wabbit read it is faster than feeding it line by line from Python."""
    made = prepare(path, f"{scratch}.vw")
    learned = prepared(f"{scratch}.vw", "-", *options)
    return {"rows": made["rows"], "seconds": made["seconds"] + learned["seconds"], "converting": made["seconds"]}


def score(test: str, model: str) -> dict[str, float]:
    from sklearn.metrics import log_loss, roc_auc_score
    from vowpalwabbit import Workspace

    workspace = Workspace(arg_list=["-i", model, "-t", "--quiet", "--link", "logistic"])
    labels, predicted = [], []
    with open(test, encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            labels.append(line.startswith("1"))
            predicted.append(workspace.predict(line))
    workspace.finish()
    return {"auc": float(roc_auc_score(labels, predicted)), "logloss": float(log_loss(labels, predicted))}


VERBS: dict[str, Callable[..., dict[str, float]]] = {
    "prepare": prepare,
    "prepared": prepared,
    "raw": raw,
    "score": score,
}

if __name__ == "__main__":
    print(json.dumps(VERBS[sys.argv[1]](*sys.argv[2:])))
