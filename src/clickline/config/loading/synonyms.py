"""Words of other systems for keys of the job, for suggestions."""

from __future__ import annotations

from clickline.config.loading.key_paths import section_at
from clickline.config.loading.origins import Path, key_text
from clickline.config.section import Section

SYNONYMS = {
    "train.optimizer.learning_rate": ("lr", "rate", "learningrate", "step_size"),
    "train.optimizer.weight_decay": ("wd", "decay"),
    "train.optimizer.clip": ("grad_clip", "gradient_clip", "max_norm", "clip_norm"),
    "train.optimizer.name": ("optim",),
    "train.batch_size": ("batch", "batchsize", "bs", "batch_rows"),
    "train.epochs": ("num_epochs", "n_epochs", "max_epochs", "passes"),
    "train.early_stopping.patience": ("stop_after",),
    "model.embedding_dim": ("emb_dim", "embed_dim", "embedding_size", "emb_size", "dim", "factors"),
    "model.hidden": ("hidden_units", "hidden_layers", "layers", "mlp", "dnn_hidden_units", "fc_sizes"),
    "model.dropout": ("dropout_rate", "drop"),
    "features.slots": ("sparse", "categorical", "sparse_features", "categories", "columns"),
    "features.dense": ("numeric", "numerical", "continuous", "dense_features"),
    "features.labels": ("label", "target", "targets"),
    "data.train": ("train_data", "train_path", "train_files"),
    "data.valid": ("val", "validation", "eval", "dev", "valid_data"),
    "data.test": ("test_data", "test_path"),
    "data.delimiter": ("sep", "delim"),
    "tables.eviction.unseen_for": ("ttl", "expire", "expire_after"),
    "tables.admission.count": ("min_count", "entry_threshold", "count_filter"),
    "checkpoint.every_steps": ("save_every", "save_steps", "checkpoint_every"),
    "cluster.pservers": ("servers", "ps", "num_servers", "server_num"),
    "cluster.trainers": ("workers", "num_workers", "worker_num", "nproc"),
    "seed": ("random_seed", "random_state"),
    "threads": ("num_threads", "n_jobs"),
    "output": ("output_dir", "out", "save_dir", "model_dir"),
}


def synonym(path: Path, root: type[Section]) -> str | None:
    """The key that an unknown one is another word for: within its own section if that has such a key."""
    word = str(path[-1]).casefold().replace("-", "_")
    for key, words in SYNONYMS.items():
        if word not in words:
            continue
        section, name = section_at(path[:-1], root), key.rpartition(".")[2]
        if section is not None and name in section.model_fields:
            return key_text((*path[:-1], name))
        return key
    return None
