"""config.yaml of PaddleRec's last years: one flat `runner` beside `hyper_parameters`.

The text below a field says what becomes of the key; docs/reference/paddlerec-keys.md is made of these texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from clickline.compat.paddlerec.reading import value_types as values
from clickline.compat.paddlerec.reading.hyper_parameters import HyperParameters
from clickline.config.loading.cross_checks import Contradiction, CrossChecked
from clickline.config.section import Section

_BY_DAY = values.NotCarried("online learning is a run for each day or hour: clickline train --warm-start … --publish …")
_DUMPED = values.NotCarried("clickline evaluate --out FILE writes the prediction of every row")
_ELSEWHERE = values.NotCarried("name files by URL, their options in data.storage")
_FILES = values.NotCarried("pieces of files are leased to trainers as they ask for them")
_Epoch = Annotated[int, Field(ge=0, le=10_000)]
Workers = Annotated[int, Field(ge=0, le=256)]


class FileSystemClient(Section):
    """runner.fs_client."""

    uri: values.Text = ""
    """The paths in `data.train`, by their URL."""
    user: values.Text = ""
    """`data.storage.user`."""
    passwd: values.Credential | None = None
    """`data.storage`, as ${env:NAME}."""
    hadoop_bin: Annotated[values.Text, values.NotCarried("paths are opened by fsspec")] = ""
    """Nothing: paths are opened by fsspec."""


class FlatRunner(CrossChecked):
    """The section `runner` (`dygraph` or `static` in some files)."""

    train_data_dir: values.Paths
    """`data.train`, seen from the directory of config.yaml; one, or a list."""
    train_reader_path: values.Text = ""
    """`data.format`, if it is a reader of ours; else the model says what its sample data looks like."""
    train_batch_size: values.Positive
    """`train.batch_size`."""
    epochs: values.Positive = 1
    """`train.epochs`; only online learning by days goes without."""
    print_interval: values.Positive
    """`train.log_every`."""
    model_save_path: values.NotEmpty = "model_output"
    """`output`, seen from where the job runs."""
    model_init_path: values.Text = ""
    """`clickline train --warm-start`: a run or checkpoint of Clickline; Paddle's own cannot be read."""
    warmup_model_path: values.Text = ""
    """The same."""
    test_data_dir: values.Text = ""
    """`data.test`, seen from the directory of config.yaml."""
    infer_data_dir: values.Text = ""
    """The same."""
    model_path: Annotated[values.Text, values.NotCarried("the directory of config.yaml names the model")] = ""
    """Nothing: the directory of config.yaml names the model."""
    infer_reader_path: values.Text = ""
    """The same as `train_reader_path`: test data has the format of training data."""
    infer_batch_size: values.Positive | None = None
    """Nothing: figures do not depend on it."""
    infer_load_path: values.Text = ""
    """`clickline run --infer` tests the epochs in it; a job tests what it has trained, at its end."""
    infer_start_epoch: _Epoch | None = None
    """`clickline run --infer` begins with this epoch; a job tests the last one."""
    infer_end_epoch: _Epoch | None = None
    """`clickline run --infer` ends before this epoch."""
    runner_result_dump_path: values.Text = ""
    """`clickline run` writes lines of metrics there, a file for each epoch; `--infer`, its figures."""
    use_gpu: values.Switch = False
    """Models are computed on the CPU; ranks of `strategy: collective` exchange by GPU with `CLICKLINE_DEVICE=cuda`."""
    use_xpu: values.Switch = False
    """Nothing: there is no XPU here."""
    use_npu: values.Switch = False
    """Nothing: there is no NPU here."""
    use_auc: values.Switch = True
    """Nothing: AUC is always measured."""
    auc_num: values.Positive | None = None
    """Nothing: AUC is measured for every label."""
    use_visual: values.Switch | None = None
    """`train.tensorboard`."""
    use_inference: values.Switch = False
    """`clickline train --publish`."""
    save_inference_feed_varnames: values.Names = []
    """Each must be a feature; inputs of a published version are all of `features`."""
    save_inference_fetch_varnames: values.Names = []
    """Nothing: outputs of a published version follow from `features.labels`."""
    use_fleet: values.Switch = False
    """`strategy: collective`; the number of its ranks is `cluster.trainers`."""
    sync_mode: (
        Annotated[Literal["sync", "async", "half_async", "geo", "heter", "gpubox", "paddlebox"], values.Lower] | None
    ) = None
    """`strategy`; --server_num and --worker_num of fleetrun are `cluster.pservers` and `cluster.trainers`. heter,
    gpubox and paddlebox keep rows in GPUs, which nothing here does: async is the nearest."""
    geo_step: values.Positive | None = None
    """geo: `cluster.agree.geo_steps`."""
    thread_num: values.Positive = 1
    """`threads`."""
    train_thread_num: values.Positive | None = None
    """The same."""
    infer_thread_num: values.Positive | None = None
    """The same."""
    num_workers: Workers = 0
    """`data.threads`."""
    reader_type: Annotated[Literal["dataloader", "queuedataset", "inmemorydataset", "recdataset"], values.Lower] = (
        "dataloader"
    )
    """InmemoryDataset: rows are mixed (`data.shuffle_rows`); others keep the order of the log."""
    pipe_command: values.Text = ""
    """Nothing: PaddleRec's text is read as it is; a command of your own is `data.pipe_command`."""
    batch_generator: Annotated[values.Switch, values.NotCarried("batches are made of rows here")] = False
    """Nothing: batches are made of rows here."""
    split_file_list: Annotated[values.Switch, _FILES] = False
    """Nothing: pieces of files are leased to trainers as they ask for them."""
    dataset_debug: Annotated[
        values.Switch, values.NotCarried("`clickline status` and metrics.jsonl say where time goes")
    ] = False
    """Nothing: `clickline status` and `metrics.jsonl` say where time goes."""
    example_count_method: Annotated[values.Text, values.NotCarried("speed is rows per second")] = ""
    """Nothing: speed is rows per second."""
    use_gloo: Annotated[values.Switch, values.NotCarried("figures are always over all trainers")] = False
    """Nothing: figures are always over all trainers."""
    fs_client: Annotated[FileSystemClient | None, _ELSEWHERE] = None
    """`data.storage`, by hand."""
    fs_name: Annotated[values.Text, _ELSEWHERE] = ""
    """The same."""
    fs_ugi: Annotated[values.Credential | None, _ELSEWHERE] = None
    """The same, as ${env:NAME}."""
    need_dump: Annotated[values.Switch, _DUMPED] = False
    """`clickline evaluate --out`."""
    dump_fields: Annotated[values.Names, _DUMPED] = []
    """The same."""
    dump_param: Annotated[values.Names, _DUMPED] = []
    """The same."""
    dump_fields_path: Annotated[values.Text, _DUMPED] = ""
    """The same."""
    parse_ins_id: Annotated[values.Switch, _DUMPED] = False
    """The same: `row` is the number of each."""
    shuffle_thread_num: Annotated[values.Whole | None, values.NotCarried("rows are mixed as they are read")] = None
    """Nothing: rows are mixed as they are read."""
    need_train_dump: Annotated[values.Switch, _DUMPED] = False
    """`clickline evaluate --out`."""
    need_infer_dump: Annotated[values.Switch, _DUMPED] = False
    """The same."""
    train_dump_fields_dir: Annotated[values.Text, _DUMPED] = ""
    """The same."""
    infer_dump_fields_dir: Annotated[values.Text, _DUMPED] = ""
    """The same."""
    days: Annotated[values.Text, _BY_DAY] = ""
    """Nothing: online learning is a run for each day or hour, `clickline train --warm-start … --publish …`."""
    pass_per_day: Annotated[values.Whole | None, _BY_DAY] = None
    """The same."""
    start_day: Annotated[values.Text, _BY_DAY] = ""
    """Nothing: online learning is a run for each day or hour, `clickline train --warm-start … --publish …`."""
    end_day: Annotated[values.Text, _BY_DAY] = ""
    """The same."""
    split_interval: Annotated[values.Whole | None, _BY_DAY] = None
    """The same."""
    split_per_pass: Annotated[values.Whole | None, _BY_DAY] = None
    """The same."""
    checkpoint_per_pass: Annotated[values.Whole | None, _BY_DAY] = None
    """The same."""
    save_delta_frequency: Annotated[values.Whole | None, _BY_DAY] = None
    """The same."""
    save_first_base: Annotated[values.Switch, _BY_DAY] = False
    """The same."""
    data_donefile: Annotated[values.Text, _BY_DAY] = ""
    """The same."""
    data_sleep_second: Annotated[values.Whole | None, _BY_DAY] = None
    """The same."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Contradiction]:
        reader, fleet = str(given.get("reader_type", "")).lower(), given.get("use_fleet") is True
        if reader == "queuedataset" and fleet:
            yield ("reader_type",), "use_fleet is collective, which does not read a QueueDataset: set it to DataLoader"
        if reader in ("queuedataset", "inmemorydataset") and not given.get("pipe_command"):
            yield ("pipe_command",), f"missing; a {given['reader_type']} reads through it; for text as it is: cat"
        if given.get("use_gpu") is True and given.get("use_xpu") is True:
            yield ("use_xpu",), "use_gpu is true, too; a run has one device"
        start, end = given.get("infer_start_epoch"), given.get("infer_end_epoch")
        if isinstance(start, int) and isinstance(end, int) and start >= end:
            yield ("infer_end_epoch",), f"{end} is not after infer_start_epoch, {start}: no epoch would be tested"
        if fleet and str(given.get("sync_mode", "")).lower() in ("sync", "async", "half_async", "geo"):
            yield ("sync_mode",), "parameter servers, but use_fleet is collective: give one of them"
        if "epochs" not in given and not any(given.get(key) for key in ("start_day", "days")):
            yield ("epochs",), "missing; how often the data is read"
        if str(given.get("sync_mode", "")).lower() == "geo" and given.get("geo_step") is None:
            yield ("geo_step",), "missing; geo exchanges after so many steps"


class LoaderSettings(Section):
    """The section `loader`."""

    num_workers: Workers = 0
    """As `runner.num_workers`."""


class FlatConfig(Section):
    """The whole file."""

    runner: FlatRunner
    """See below."""
    hyper_parameters: HyperParameters
    """See below."""
    workspace: values.Text = ""
    """`{workspace}`; its last part names the model."""
    loader: LoaderSettings | None = None
    """`num_workers`, where it stands outside of `runner`."""
    table_parameters: Annotated[
        dict[str, Any], values.NotCarried("rows enter and leave by tables.admission and tables.eviction")
    ] = {}
    """`tables.admission` and `tables.eviction`, by hand."""
