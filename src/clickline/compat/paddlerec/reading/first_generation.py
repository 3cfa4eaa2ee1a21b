"""config.yaml of PaddleRec 1.8: runners, phases and datasets in lists, which call each other by name.

The text below a field says what becomes of the key; docs/reference/paddlerec-keys.md is made of these texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from clickline.compat.paddlerec.reading import value_types as values
from clickline.compat.paddlerec.reading.first_contradictions import first_contradictions
from clickline.compat.paddlerec.reading.hyper_parameters import HyperParameters
from clickline.config.loading.cross_checks import Contradiction, CrossChecked
from clickline.config.section import Section

_OWN_FLOW = values.NotCarried(
    "the steps of a run are not replaceable; a program of your own calls clickline.train_job instead"
)
_ELSEWHERE = values.NotCarried("name files by URL, their options in data.storage")
_ENGINES = {"single_train": "train", "single_infer": "infer"}
"""Names of older files."""


def _engine(value: object) -> object:
    word = value.strip().lower() if isinstance(value, str) else value
    return _ENGINES.get(word, word) if isinstance(word, str) else word


def _one_or_more(value: object) -> object:
    return [value] if isinstance(value, str | int | float) and not isinstance(value, bool) else value


class RunnerSettings(Section):
    """One of `runner`."""

    name: values.NotEmpty
    """Name by which `mode` calls it; the job's `name`."""
    engine: Annotated[Literal["train", "infer", "local_cluster_train", "cluster_train"], BeforeValidator(_engine)] = (
        Field(alias="class")
    )
    """train: one process; the cluster_train ones: `cluster.pservers` and `cluster.trainers`; infer: `data.test`."""
    device: Annotated[Literal["cpu", "gpu"], values.Lower] = "cpu"
    """Models are computed on the CPU; ranks of `strategy: collective` exchange by GPU with `CLICKLINE_DEVICE=cuda`."""
    fleet_mode: Annotated[Literal["ps", "pslib", "collective"], values.Lower] = "ps"
    """ps, pslib: parameter servers. collective: `strategy: collective`."""
    selected_gpus: values.Text = "0"
    """More than one: `strategy: collective` with as many `cluster.trainers`."""
    worker_num: values.Positive = 1
    """`cluster.trainers`."""
    server_num: values.Positive = 1
    """`cluster.pservers`."""
    distribute_strategy: Annotated[Literal["sync", "async", "half_async", "geo"], values.Lower] = "async"
    """`strategy`."""
    epochs: values.Positive = 1
    """`train.epochs`."""
    phases: values.Names = []
    """Phases of the run, in this order; all if not given."""
    init_model_path: values.Text = ""
    """`clickline train --warm-start`: a run or checkpoint of Clickline; Paddle's own cannot be read."""
    save_checkpoint_interval: values.Interval = -1
    """`checkpoint.every_epochs`."""
    save_checkpoint_path: values.Text = ""
    """`output`; `clickline run` links the checkpoint of each epoch there, as PATH/EPOCH."""
    save_step_interval: values.Interval = -1
    """`checkpoint.every_steps`."""
    save_step_path: values.Text = ""
    """`clickline run` links checkpoints there, as epoch_E_batch_B; a job has them in the run's own directory."""
    save_inference_interval: values.Interval = -1
    """`clickline run` publishes a version of each epoch that is due; `clickline train --publish`, one at the end."""
    save_inference_path: values.Text = ""
    """The store of versions; `clickline run` links each epoch's there, as PATH/EPOCH."""
    save_inference_feed_varnames: values.Names = []
    """Each must be a feature; inputs of a published version are all of `features`."""
    save_inference_fetch_varnames: values.Names = []
    """Nothing: outputs of a published version follow from `features.labels`."""
    print_interval: values.Positive = 20
    """`train.log_every`."""
    instance_class_path: Annotated[values.Text, _OWN_FLOW] = ""
    """Nothing: a program of your own calls `clickline.train_job`."""
    network_class_path: Annotated[values.Text, _OWN_FLOW] = ""
    """The same."""
    startup_class_path: Annotated[values.Text, _OWN_FLOW] = ""
    """The same."""
    runner_class_path: Annotated[values.Text, _OWN_FLOW] = ""
    """The same."""
    terminal_class_path: Annotated[values.Text, _OWN_FLOW] = ""
    """The same."""
    init_pretraining_model_path: values.Text = ""
    """`clickline train --warm-start`, from a run of Clickline."""
    finetuning_aspect_varnames: values.Names = []
    """`train.frozen`: an embedding of PaddleRec's is the table `embedding`; other parts go by their names here."""
    runner_result_dump_path: values.Text = ""
    """`clickline run` writes lines of metrics there, a file for each epoch; a job has them in `metrics.jsonl`."""
    trainer_class: Annotated[values.Text, _OWN_FLOW] = ""
    """Nothing, as the class paths; single_train and single_infer of older files are `class`."""
    push_num: values.Positive = Field(default=100, alias="train.strategy.mode.push_num")
    """geo: `cluster.agree.geo_steps`."""

    @property
    def gpus(self) -> int:
        return len([gpu for gpu in self.selected_gpus.split(",") if gpu.strip()])


class PhaseSettings(Section):
    """One of `phase`."""

    name: values.NotEmpty
    """Name by which runners call it."""
    model: values.NotEmpty
    """`model.name`: the directory says which of the zoo; a model.py of ours is used itself."""
    dataset_name: values.NotEmpty
    """Its dataset: `data.train`, or `data.test` of an infer runner."""
    thread_num: values.Positive = 1
    """`threads` (`cluster.threads` with several processes): the largest of all phases."""
    gradient_scale_strategy: Annotated[
        Literal[0, 1, 2], values.NotCarried("gradients are means over the rows of a batch")
    ] = 0
    """Nothing: gradients are means over the rows of a batch."""
    shuffle_filelist: Annotated[
        values.Switch, values.NotCarried("files are read in their order; data.shuffle_rows mixes rows")
    ] = False
    """Nothing: files are read in their order; `data.shuffle_rows` mixes rows."""


class DatasetSettings(Section):
    """One of `dataset`."""

    name: values.NotEmpty
    """Name by which phases call it."""
    type: Annotated[Literal["dataloader", "queuedataset", "inmemorydataset"], values.Lower]
    """DataLoader or QueueDataset: the same here. InMemoryDataset: rows are mixed (`data.shuffle_rows`)."""
    batch_size: values.Positive = 1
    """`train.batch_size`."""
    data_path: values.NotEmpty
    """`data.train` or `data.test`."""
    data_converter: values.Text = ""
    """`data.format`, if it is a reader of ours; else `sparse_slots` and `dense_slots` must say what a row has."""
    sparse_slots: values.Text = ""
    """The first is `features.labels`, the others `features.slots`."""
    dense_slots: values.Text = ""
    """`features.dense`: NAME:SIZE, as it is in the log (`normalise: none`)."""
    hdfs_addr: Annotated[values.Text, _ELSEWHERE] = ""
    """The path in `data.train`, by its URL."""
    hdfs_ugi: Annotated[values.Credential | None, _ELSEWHERE] = None
    """`data.storage`, as ${env:NAME}."""
    hadoop_home: Annotated[values.Text, values.NotCarried("paths are opened by fsspec")] = ""
    """Nothing: paths are opened by fsspec."""
    reader_class_name: Annotated[values.Text, values.NotCarried("slots are read in native code")] = ""
    """Nothing: slots are read in native code."""
    padding: Annotated[values.Whole, values.NotCarried("a slot without a value has a vector of zeros")] = 0
    """Nothing: a slot without a value has a vector of zeros."""


class FirstConfig(CrossChecked):
    """The whole file."""

    workspace: values.NotEmpty
    """What `{workspace}` stands for: a directory, or paddlerec.models.rank.dnn for one that Clickline brings along."""
    mode: Annotated[list[values.NotEmpty], Field(min_length=1), BeforeValidator(_one_or_more)]
    """Runners to run, in this order: a job for each that trains."""
    runner: Annotated[list[RunnerSettings], Field(min_length=1)]
    """See below."""
    phase: Annotated[list[PhaseSettings], Field(min_length=1)]
    """See below."""
    dataset: Annotated[list[DatasetSettings], Field(min_length=1)]
    """See below."""
    hyper_parameters: HyperParameters | None = None
    """See below; PaddleRec's own values of the model where there are none."""
    debug: Annotated[values.Switch, values.NotCarried("`clickline status` and metrics.jsonl say where time goes")] = (
        False
    )
    """Nothing: `clickline status` and `metrics.jsonl` say where time goes."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Contradiction]:
        yield from first_contradictions(given)
