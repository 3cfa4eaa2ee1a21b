"""Types of the native core. One section per bind_*.cpp."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

arch: str

# --- hash ---
def xxh64(data: bytes, seed: int = 0) -> int: ...
def feature_key(slot: str, value: bytes) -> int: ...
def bucket_of(key: int) -> int: ...

# --- dense parameters ---
def dense_sgd(
    values: NDArray[np.float32], gradient: NDArray[np.float32], *, learning_rate: float, weight_decay: float
) -> None: ...
def dense_adagrad(
    values: NDArray[np.float32],
    sums: NDArray[np.float32],
    gradient: NDArray[np.float32],
    *,
    learning_rate: float,
    weight_decay: float,
) -> None: ...
def dense_adam(
    values: NDArray[np.float32],
    means: NDArray[np.float32],
    squares: NDArray[np.float32],
    gradient: NDArray[np.float32],
    *,
    step: float,
    decoupled: bool,
    learning_rate: float,
    weight_decay: float,
) -> None: ...
def dense_average(average: NDArray[np.float32], values: NDArray[np.float32], *, share: float) -> None: ...
def narrow(numbers: NDArray[np.float32], out: NDArray[np.uint16], *, wire: str) -> None: ...
def widen(halves: NDArray[np.uint16], out: NDArray[np.float32], *, wire: str) -> None: ...

# --- table ---
class TableMemory(TypedDict):
    rows: int
    waiting: int
    payload_bytes_per_row: int
    bytes_per_row: float
    total_bytes: int
    index_bytes: int
    waiting_bytes: int

class Table:
    """Rows of weights by 64-bit key, with the optimizer inside. Safe to use from any number of threads."""

    def __init__(
        self,
        *,
        dim: int,
        optimizer: str = "adagrad",
        learning_rate: float = 0.05,
        l1: float = 0.0,
        l2: float = 0.0,
        weight_decay: float = 0.0,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        initial: float = 0.1,
        clip: float = 0.0,
        init_scale: float = 0.01,
        seed: int = 0,
        policies: Sequence[tuple[int, float, int, float, float, float]] = ...,
    ) -> None:
        """Policies, one per slot: (count, probability, unseen_for, min_score, show_weight, click_weight)."""

    def pull(
        self,
        keys: NDArray[np.uint64],
        out: NDArray[np.float32],
        *,
        training: bool,
        slots: NDArray[np.uint16] | None = None,
        threads: int = 1,
    ) -> None: ...
    def push(
        self,
        keys: NDArray[np.uint64],
        grads: NDArray[np.float32],
        shows: NDArray[np.float32],
        clicks: NDArray[np.float32],
        slots: NDArray[np.uint16],
        *,
        tick: int,
        scale: float = 1.0,
        threads: int = 1,
    ) -> None: ...
    def read_whole(self, keys: NDArray[np.uint64]) -> NDArray[np.float32]:
        """Weights and state of each key; what a new row would have where there is none."""

    def assign_whole(
        self, keys: NDArray[np.uint64], rows: NDArray[np.float32], slots: NDArray[np.uint16], *, tick: int
    ) -> None:
        """Set weights and state, making rows that are not there."""

    def add_whole(
        self,
        keys: NDArray[np.uint64],
        rows: NDArray[np.float32],
        shows: NDArray[np.float32],
        clicks: NDArray[np.float32],
        slots: NDArray[np.uint16],
        *,
        tick: int,
    ) -> None:
        """Add differences of weights and state, admitting new keys like a push."""

    def reset(self, *, threads: int = 1) -> None:
        """Every row learns anew from its initial value; keys, counts and who waits stay."""

    def evict(self, now: int, decay: float = 1.0, *, threads: int = 1) -> int: ...
    def counts(self, keys: NDArray[np.uint64]) -> NDArray[np.float32]: ...
    def last_seen(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]: ...
    def rows(self, keys: NDArray[np.uint64]) -> NDArray[np.float32]: ...
    def states(self, keys: NDArray[np.uint64]) -> NDArray[np.float32]: ...
    def keys(self) -> NDArray[np.uint64]: ...
    def memory(self) -> TableMemory: ...
    def write_dictionary(
        self,
        path: str | PathLike[str],
        *,
        dtype: int,
        first_bucket: int = 0,
        last_bucket: int = 4096,
        threads: int = 1,
    ) -> DictionaryFacts:
        """The weights of all rows in these buckets. dtype: 1 fp32, 2 fp16, 3 u8."""

    def save(self, path: str | PathLike[str]) -> None: ...
    def load(self, path: str | PathLike[str], first_bucket: int = 0, last_bucket: int = 4096) -> None: ...
    def restore(self, path: str | PathLike[str], first_bucket: int = 0, last_bucket: int = 4096) -> None:
        """Rows that the table has get the weights and state that they have in the file; keys and counts stay."""

    def __len__(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def optimizer(self) -> str: ...
    @property
    def seed(self) -> int: ...

# --- parse ---
Bytes: TypeAlias = bytes | bytearray | memoryview  # or anything else with the buffer protocol
ArrowList: TypeAlias = tuple[int, Bytes | None, Bytes | None]  # offset, validity, 64-bit starts
# name, kind, offset, length, validity, starts, values, list; data/sources/arrow.py makes them
ArrowColumn: TypeAlias = tuple[str, str, int, int, Bytes | None, Bytes | None, Bytes | None, ArrowList | None]

class Parsed:
    """Rows as arrays (see data/batch.py), and what there is to say about the text they came from."""

    n: int
    labels: NDArray[np.float32]
    dense: NDArray[np.float32]
    keys: NDArray[np.uint64]
    offsets: NDArray[np.int64] | None
    weights: NDArray[np.float32] | None
    times: NDArray[np.int64] | None
    groups: NDArray[np.uint64] | None
    lines: int
    """Lines consumed, bad and blank ones included."""
    bad: int
    errors: list[tuple[int, str]]
    """The first ten bad rows: line in the block, from 1, and why."""
    missing_slots: NDArray[np.uint64]
    """Rows without a value, per slot."""
    missing_dense: NDArray[np.uint64]
    """Rows without a value, per dense feature."""
    def __len__(self) -> int: ...

class Parser:
    def __init__(
        self,
        *,
        format: str,  # criteo, slots, elasticctr, csv, columns
        columns: Sequence[str],  # csv, columns: all columns of the data, in their order; requests may name these
        labels: Sequence[str],
        slots: Sequence[tuple[str, str, str, str, int, bool]],  # name, column, bucket, separator, max_values, keep_last
        # name, column, size, normalise, center, spread, missing
        dense: Sequence[tuple[str, str, int, str, float, float, float]],
        weight: str,
        time: str,
        group: str,  # empty: none
        raw_keys: bool,
        delimiter: str,
        numeric_labels: bool = False,  # labels are any finite numbers; otherwise 0 or 1
    ) -> None: ...
    columns: list[str]
    """Those that are used."""
    def parse(self, data: Bytes) -> Parsed: ...
    def parse_columns(self, rows: int, columns: Sequence[ArrowColumn]) -> Parsed: ...
    def parse_json(self, body: Bytes, most_rows: int) -> Asked: ...
    def parse_feasigns(self, body: Bytes, most_rows: int) -> Asked: ...
    def parse_tensors(self, tensors: Tensors, most_rows: int) -> Asked: ...

# --- requests ---
# rows, dense, keys, offsets, how many values of columns were missing
Asked: TypeAlias = tuple[int, NDArray[np.float32], NDArray[np.uint64], NDArray[np.int64] | None, int]
# name, datatype, shape, data, where each row's values start; serve/protocols/open_inference.py has it as a Tensor
TensorTuple: TypeAlias = tuple[str, str, Sequence[int], Bytes | Sequence[Any], Sequence[int] | None]

class Refused(ValueError):
    """A request that cannot be read. Arguments: reason, message, the unknown feature or an empty text; the same of
    further mistakes; whether there may be more."""

    args: tuple[str, str, str, tuple[tuple[str, str, str], ...], bool]

class Tensors:
    """Inputs of a request, which they keep alive."""

    def __init__(self, inputs: Iterable[TensorTuple]) -> None: ...
    names: list[str]
    def __len__(self) -> int: ...

def read_infer_request(
    body: Bytes, header_length: int | None
) -> tuple[Tensors, bytes | None, bytes | None, bytes | None]:
    """Inputs of a request to infer; and as JSON, where given: id, outputs, parameters. Without a length all is JSON."""

def json_member(body: Bytes, name: str) -> str | None:
    """The text or number that a member of the outermost object has, as text; None if there is none."""

def json_floats(array: NDArray[np.float32]) -> bytes:
    """All numbers of an array of two dimensions as one JSON list, in as few digits as tell floats apart."""

# --- plan ---
class Plan:
    """The distinct keys of a batch, and the way from them to the batch (gather) and back (scatter).

    `unique` is ordered by bucket_of, then by first occurrence; all results are the same for any number of threads.
    Arrays may be numpy arrays or CPU tensors; they must be C-contiguous (labels may be strided).
    """

    def __init__(
        self,
        keys: NDArray[np.uint64],
        offsets: NDArray[np.int64] | None,
        columns: int,
        select: Sequence[int],
        pooling: Sequence[int],
        labels: NDArray[np.float32],
        sequence_length: int = 0,
        threads: int = 1,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def unique(self) -> NDArray[np.uint64]: ...
    @property
    def slots(self) -> NDArray[np.uint16]: ...
    @property
    def shows(self) -> NDArray[np.float32]: ...
    @property
    def clicks(self) -> NDArray[np.float32]: ...
    @property
    def lengths(self) -> NDArray[np.int32]: ...
    def gather(self, rows: Any, out: Any, threads: int = 1) -> None: ...
    def scatter(self, grad: Any, rows: Any, out: Any, threads: int = 1) -> None: ...

# --- wire ---
class WireServer:
    """Answers CALL by a Python function, PULL and PUSH by tables, without Python. See docs/reference/wire.md."""

    def __init__(
        self,
        address: str,
        *,
        token: bytes,
        job: str,
        name: str,
        handler: Callable[[str, int, str, memoryview], Bytes | list[Any]],  # a buffer, or several to be sent as one
        max_frame: int = ...,
        max_connections: int = 4096,
        max_unauthenticated: int = 64,
        once: bool = True,
        answers_again: bool = False,
    ) -> None:
        """Listens at once. The handler gets (client's name, client's id, op, body), on threads of the server.

        `max_unauthenticated` bounds connections that have not shown the token; `max_connections` those that have.
        `answers_again=True` is a handler's promise to look at `already_done()`: only then are large answers forgotten
        once they were sent, and requests that come again may come to the handler again.
        `once=False` switches exactly-once off: only so that a test can show what then goes wrong.
        """

    def already_done(self) -> bool:
        """For a handler: whether its request was executed before, so that it may be answered but not done again.

        It can become true while the handler waits, by `restore_sequences`. Raises PeerError if later ones were
        executed, too.
        """

    @property
    def address(self) -> str:
        """With the real port."""

    def add_table(self, number: int, table: Table, *, damping: float = 0.0) -> None:
        """Replaces one of that number; requests under way finish first.

        A push of staleness s learns at (1 + s)^-damping of its rate.
        """

    def open(self) -> None:
        """Tables may be read and written; before that PULL and PUSH wait."""

    def shut(self) -> None:
        """PULL and PUSH wait again, and those under way are awaited. CALL goes on."""

    def sequences(self) -> list[tuple[int, int, int]]:
        """(client, lane, last sequence number that was executed)"""

    def restore_sequences(self, entries: Sequence[tuple[int, int, int]]) -> None: ...
    def forget(self, client: int) -> None:
        """Drops what is kept about a client that will not come back."""

    def fence(self, client: int) -> None:
        """Executes nothing of a client any more: its calls that are to be executed once raise ReplacedError there."""

    def progress(self) -> list[tuple[int, int]]:
        """(lease, rows done): the largest number that pushes have named."""

    def forget_progress(self, leases: Sequence[int]) -> None: ...
    def counters(self) -> dict[str, int]: ...
    def close(self) -> None:
        """Wakes whoever waits here, waits for all threads, removes a unix socket's file.

        Handlers that block must be woken by their owner; a handler cannot close its own server.
        """

class Lane:
    """One client's ordered way to several servers. Callers on several threads queue."""

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        token: bytes,
        job: str,
        name: str,
        client: int,
        lane: int,
        deadline: float = 30.0,
        retry_for: float = 120.0,
        max_frame: int = ...,
    ) -> None:
        """Connects when needed. `deadline` is of one try; it gives up after `retry_for` seconds without success."""

    def call(
        self,
        op: str,
        bodies: list[list[Any]],
        *,
        once: bool = False,
        deadline: float | None = None,
        only: int | None = None,
    ) -> list[bytes]:
        """One body, a list of buffers, for each server, or one body for server `only`. Returns the replies."""

    def pull(
        self,
        table: int,
        keys: NDArray[np.uint64],
        out: NDArray[np.float32],
        *,
        training: bool,
        slots: NDArray[np.uint16] | None = None,
        wire: str = "fp32",
    ) -> list[int]:
        """Keys in bucket order. Returns each server's version of the table; 0 of one that has none of the keys."""

    def push(
        self,
        table: int,
        keys: NDArray[np.uint64],
        grads: NDArray[np.float32],
        shows: NDArray[np.float32],
        clicks: NDArray[np.float32],
        slots: NDArray[np.uint16],
        *,
        tick: int,
        scale: float = 1.0,
        based_on: Sequence[int] = ...,
        max_staleness: int = 0,
        lease: int = 0,
        rows_done: int = 0,
        wire: str = "fp32",
    ) -> None:
        """Every server gets a push, be it empty, so that all count the same steps. Executed once, if sent again."""

    def set_address(self, server: int, address: str, *, reconnect: bool = False) -> None:
        """A call that waits for that server goes on at the new address, or with `reconnect` on a new connection."""

    def cancel(self) -> None:
        """Calls that are under way or queue raise PeerError; later ones work."""

    def counters(self) -> dict[str, int]: ...
    def close(self) -> None:
        """Like cancel, for good."""

def owner_ranges(servers: int) -> list[tuple[int, int]]:
    """Buckets [first, last) of each server."""

# --- sequence ---
class SequenceReader:
    """A SequenceFile of ElasticCTR's Cube, from front to back, in bounded memory. Raises DataError. See
    docs/compatibility.md."""

    def __init__(self, path: str | PathLike[str]) -> None: ...
    def read(
        self, records: int = 65536, max_bytes: int = ...
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]] | None:
        """Keys, offsets (one more) and bytes of the next values; None at the end."""

    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def sync(self) -> bytes: ...

class SequenceWriter:
    """Writes one. `sync` are the 16 bytes of its marks."""

    def __init__(self, path: str | PathLike[str], *, sync: bytes) -> None: ...
    def append(
        self, keys: NDArray[np.uint64], values: NDArray[np.uint8], offsets: NDArray[np.uint64] | None = None
    ) -> None:
        """Values are [n, width], or with offsets [bytes]."""

    def finish(self) -> None:
        """On the disk, or an error."""

    @property
    def records(self) -> int: ...

# --- dictionary ---
class DictionaryError(RuntimeError):
    """A dictionary cannot be written, read, or trusted; names the file, the section and what was expected."""

class DictionaryFacts(TypedDict):
    count: int
    deleted: int
    bytes: int

class Dictionary:
    """Rows by key in one file that never changes. Safe to use from any number of threads."""

    def __init__(
        self, path: str | PathLike[str], *, offset: int = 0, length: int | None = None, memory: bool = False
    ) -> None:
        """Mapped, or read into memory; offset and length: inside a tar. Looks at the header only."""

    @property
    def count(self) -> int: ...
    @property
    def deleted(self) -> int: ...
    @property
    def dtype(self) -> int:
        """0 bytes, 1 fp32, 2 fp16, 3 u8."""

    @property
    def dim(self) -> int: ...
    @property
    def row_bytes(self) -> int:
        """0: values of any size."""

    @property
    def first_bucket(self) -> int: ...
    @property
    def last_bucket(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def resident_bytes(self) -> int:
        """What of it is in memory now, be it as mapped pages."""

    def lookup(
        self, keys: NDArray[np.uint64], out: NDArray[np.uint8] | None = None, threads: int = 1
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Status (0 found, 1 missing, 2 deleted) and row of each key; zeros where there is none."""

    def lookup_values(
        self, keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint8]]:
        """Status, offsets and bytes: value i is bytes[offsets[i]:offsets[i + 1]]."""

    def keys(self) -> NDArray[np.uint64]:
        """A view, in order of spread."""

    def deleted_keys(self) -> NDArray[np.uint64]: ...
    def values(self) -> NDArray[np.uint8]:
        """A view: rows [count, row_bytes] in the order of keys(), or all bytes if they are of any size."""

    def verify(self) -> None:
        """Looks at every byte; raises DictionaryError."""

class Layers:
    """One table of one version: a base, then deltas in order. The newest that knows a key decides."""

    def __init__(self, layers: Sequence[Dictionary]) -> None: ...
    @property
    def dtype(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def row_bytes(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def resident_bytes(self) -> int: ...
    def lookup(
        self, keys: NDArray[np.uint64], out: NDArray[np.uint8] | None = None, threads: int = 1
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """As of a dictionary, but a deleted key is missing."""

    def lookup_values(
        self, keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint8]]: ...

def write_dictionary(
    path: str | PathLike[str],
    keys: NDArray[np.uint64],
    values: NDArray[np.uint8] | tuple[NDArray[np.uint64], NDArray[np.uint8]],
    *,
    dtype: int,
    dim: int,
    deleted: NDArray[np.uint64] | None = None,
    first_bucket: int = 0,
    last_bucket: int = 4096,
    threads: int = 1,
) -> DictionaryFacts:
    """Keys in any order; rows [n, row_bytes], or (offsets, bytes). On the disk when this returns, gone if it raises."""

def merge_dictionaries(
    path: str | PathLike[str],
    layers: Sequence[Dictionary],
    *,
    first_bucket: int,
    last_bucket: int,
    keep_deleted: bool,
    threads: int = 1,
) -> DictionaryFacts:
    """What a reader of the layers sees of these buckets: compacts, cuts, and joins dictionaries of several parts."""

def difference_dictionary(
    path: str | PathLike[str], parent: Sequence[Dictionary], new: Sequence[Dictionary], *, threads: int = 1
) -> DictionaryFacts:
    """The delta that makes `new` of `parent`."""

def encode_rows(rows: NDArray[np.float32], dtype: int) -> NDArray[np.uint8]: ...
def decode_rows(values: NDArray[np.uint8], dtype: int, dim: int) -> NDArray[np.float32]: ...

# --- cube ---
class CubeServer:
    """Answers GET from dictionaries, without Python, and CALL by a Python function. See docs/reference/wire.md."""

    def __init__(
        self,
        address: str,
        *,
        name: str,
        job: str,
        token: bytes,
        handler: Callable[[str, int, str, memoryview], Bytes | list[Any]] | None = None,
        max_frame: int = ...,
        max_connections: int = 4096,
        max_unauthenticated: int = 64,
    ) -> None:
        """Listens at once; GETs are answered when a version has been loaded and switched to."""

    @property
    def address(self) -> str:
        """With the real port."""

    def load(self, version: int, tables: dict[str, Layers]) -> None:
        """Beside the versions that are there; it can be read by its number at once."""

    def replace(self, version: int, tables: dict[str, Layers]) -> None:
        """Of a loaded version, by tables with the same rows: layers that have become one."""

    def switch(self, version: int, number: int) -> None:
        """Makes a loaded version the current one. The number grows with every switch, also one back."""

    def drop(self, version: int) -> None:
        """Not the current one. Requests that read it finish first."""

    def versions(self) -> list[int]: ...
    def current(self) -> tuple[int, int]:
        """(version, number of the switch); zeros before the first."""

    def counts(self) -> dict[str, int]: ...
    def close(self) -> None: ...

class Got:
    """Rows of one version, in the order of the keys. The arrays are views of memory that it owns."""

    @property
    def version(self) -> int:
        """0 if nobody could be asked what is current."""

    @property
    def code(self) -> int:
        """0; -2: some shards failed; -3: all did."""

    @property
    def dtype(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def row_bytes(self) -> int:
        """0: values of any size."""

    @property
    def status(self) -> NDArray[np.uint8]:
        """Of each key: 0 found, 1 missing, 3 its shard failed."""

    @property
    def values(self) -> NDArray[np.uint8]:
        """[keys, row_bytes], zeros where nothing was found; of any size: all of them, one behind the other."""

    @property
    def offsets(self) -> NDArray[np.uint64] | None:
        """Of values of any size: where each begins, and the end of the last."""

    @property
    def errors(self) -> list[str]:
        """Why shards failed, one text for each."""

class CubeClient:
    """Reads tables from cube servers: shards, each held by several replicas. Any number of threads may use it."""

    def __init__(
        self,
        shards: list[list[str]],
        *,
        name: str,
        job: str,
        token: bytes,
        timeout: float = 1.0,
        hedge: float = 0.0,
        retries: int = 2,
        max_frame: int = ...,
    ) -> None:
        """`timeout` is of each try; after `hedge` seconds another replica is asked as well (0: never)."""

    def get(self, table: str, keys: NDArray[np.uint64], version: int | None = None) -> Got:
        """All rows are of one version: the given one, or the current one of the highest switch number seen so far.

        Raises PeerError, beginning with "no-such-version: " or "no-such-table: ", for what no replica has. Shards that
        cannot be asked are told by `code` and `status`.
        """

    def set_addresses(self, shard: int, replicas: list[str]) -> None: ...
    @property
    def version(self) -> int:
        """That is read unless another is asked for; 0: not known yet."""

    def counts(self) -> dict[str, Any]:
        """Numbers; "requests" is a list, one for each shard."""

    def close(self) -> None:
        """Calls that are under way, and later ones, raise PeerError."""

# --- serving ---
class Histogram:
    """Adds to numbers that somebody else keeps: one for each bucket, one for what is above, then the sum of all."""

    def __init__(self, numbers: memoryview[float], bounds: Sequence[float]) -> None: ...
    def add(self, values: NDArray[np.float32]) -> None: ...

class RowCache:
    """Rows of one table of one version, in at most so many bytes. Any thread may call it."""

    def __init__(self, *, bytes: int, dim: int) -> None: ...
    capacity: int
    def __len__(self) -> int: ...
    def lookup(
        self, keys: NDArray[np.uint64], rows: NDArray[np.float32], missing: NDArray[np.uint8]
    ) -> NDArray[np.int64]:
        """Fills in the rows of known keys, and whether the version has none; gives back the places of the others."""

    def insert(self, keys: NDArray[np.uint64], rows: NDArray[np.float32], missing: NDArray[np.uint8]) -> None: ...
