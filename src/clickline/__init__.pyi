"""Types of the public names, for type checkers and editors.

They are apart from __init__.py so that importing `clickline` depends on no room of the package: a TYPE_CHECKING import
there would count as a dependency of every module on every room.
"""

from clickline.client.async_client import AsyncClient as AsyncClient
from clickline.client.client import Client as Client
from clickline.client.payloads import Prediction as Prediction
from clickline.config import Job as Job
from clickline.config.loading.reader import LoadedJob as LoadedJob
from clickline.config.loading.reader import read_job as read_job
from clickline.data.sources.custom_reader import Reader as Reader
from clickline.data.sources.custom_reader import RowError as RowError
from clickline.errors import CheckpointError as CheckpointError
from clickline.errors import ClicklineError as ClicklineError
from clickline.errors import DataError as DataError
from clickline.errors import JobError as JobError
from clickline.errors import ModelError as ModelError
from clickline.errors import PeerError as PeerError
from clickline.errors import VersionError as VersionError
from clickline.launch.launchers import LaunchedResult as LaunchedResult
from clickline.launch.launchers import launch_job as launch_job
from clickline.launch.local.training_run import train_job as train_job
from clickline.launch.scaling.scale_request import scale as scale
from clickline.launch.stack.local_stack import LocalStack as LocalStack
from clickline.launch.stack.local_stack import up as up
from clickline.models.base import Model as Model
from clickline.net.request_errors import RequestError as RequestError

__version__: str
