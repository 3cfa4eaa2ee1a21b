"""Which model of the zoo a config.yaml means: PaddleRec names it by a directory, such as models/rank/dnn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clickline.compat.paddlerec.reading.hyper_parameters import HyperParameters
from clickline.compat.paddlerec.translation.model_files import class_of, paddle_import
from clickline.config.loading.suggestions import closest
from clickline.models.zoo_signatures import SIGNATURES

GUIDE = "docs/migrate-from-paddlerec.md"
ZOO = {
    "dnn": "dnn",
    "ctr_dnn_criteo": "dnn",
    "slot_dnn": "dnn",
    "deepfm": "deepfm",
    "dcn": "dcn_v2",
    "dcn_v2": "dcn_v2",
    "xdeepfm": "xdeepfm",
    "fm": "fm",
    "ffm": "ffm",
    "wide_deep": "wide_deep",
    "logistic_regression": "lr",
    "lr": "lr",
    "autoint": "autoint",
    "fibinet": "fibinet",
    "din": "din",
    "mmoe": "mmoe",
}
"""PaddleRec's models that are here, and our names of them."""
_NEAREST_OF = {
    "fm": "afm",
    "lr": "linear_regression",
    "autoint": "sign",
    "deepfm": "autofis deepfefm deeprec difm dlrm ensfm fat_deepffm fgcnn flen metapath ncf nfm pnn",
    "dnn": (
        "classification dssm fasttext fnn gateddnn gatednn gatenet look_alike_recall match_pyramid "
        "multiview_simnet ssr tagspace tdm textcnn textcnn_pretrain word2vec youtube_dnn youtubednn"
    ),
    "dcn_v2": "deep_crossing deepcrossing",
    "din": ("bert4rec bst deepwalk dien dmr dpin dsin fastformer gnn gru4rec iprec kim listwise mind naml tisas"),
    "mmoe": "aitm dselect_k escm2 esmm maml metaheac ple share_bottom",
}
NEAREST = {name: ours for ours, names in _NEAREST_OF.items() for name in names.split()}
"""PaddleRec's models that are not here, and the nearest of ours."""
_SIGNS = {
    "layer_sizes_cin": "xdeepfm",
    "is_Stacked": "dcn_v2",
    "low_rank": "dcn_v2",
    "cross_num": "dcn",
    "attn_layer_sizes": "autoint",
    "item_emb_size": "din",
    "expert_num": "mmoe",
}
"""Hyper-parameters that one model has only."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model for `model.name`, or why there is none."""

    name: str
    """Ours; empty if there is none."""
    paddle_name: str = ""
    """PaddleRec's, where it is one of its zoo."""
    notice: str = ""
    problem: str = ""


def choose_model(
    *, asked: str | None, names: Sequence[str], hyper: HyperParameters | None, files: Sequence[Path], packaged: bool
) -> ModelChoice:
    """The model.

    `asked`: by the key hyper_parameters.model; `names`: of directories, the likeliest first; `files`: where PaddleRec
    has the model; `packaged`: whether the first name is that of one of PaddleRec's own workspaces.
    """
    if asked:
        return _asked(asked)
    for file in files:
        own = class_of(file, base="Model")
        if own is not None and paddle_import(file) is None:
            return ModelChoice(f"{file}:{own}")
    paddle = next((found for file in files if (found := paddle_import(file))), None)
    for name in (name.lower().replace("-", "_") for name in names):
        if name in ZOO:
            notice = f"{paddle} cannot run here: the {ZOO[name]} of the zoo takes its place; {GUIDE}" if paddle else ""
            return ModelChoice(ZOO[name], name, notice)
        if name in NEAREST:
            why = f"; {paddle} is written for Paddle and cannot run" if paddle else ""
            return ModelChoice("", problem=_missing(name, NEAREST[name]) + why)
    sign = next((key for key in _SIGNS if hyper is not None and key in hyper.model_fields_set), None)
    if sign is not None:
        name = _SIGNS[sign]
        return ModelChoice(ZOO[name], name, f"{name}, since only that has {sign}; if it is another: -o {_KEY}=NAME")
    if packaged:
        return ModelChoice("", problem=_missing(names[0], closest(names[0], ZOO) or "dnn"))
    if paddle is not None:
        message = (
            f"{paddle} is written for Paddle and cannot run; {GUIDE} shows models side by side; or take one of the"
        )
        return ModelChoice("", problem=f"{message} zoo: -o {_KEY}=NAME, one of {', '.join(ZOO)}")
    return ModelChoice("dnn", "dnn", f"no directory names a model, so it is dnn; for another one: -o {_KEY}=NAME")


_KEY = "hyper_parameters.model"


def _asked(name: str) -> ModelChoice:
    word = name.strip()
    if word.lower() in ZOO:
        return ModelChoice(ZOO[word.lower()], word.lower())
    if word in SIGNATURES or ":" in word:
        return ModelChoice(word)
    return ModelChoice("", problem=_missing(word, NEAREST.get(word.lower()) or closest(word, ZOO) or "dnn"))


def _missing(name: str, nearest: str) -> str:
    return f"no model {name!r} here; the nearest is {nearest}: -o {_KEY}={nearest}, or write your own ({GUIDE})"
