"""The file systems that nodes fetch from and copy to: whether they are known, and the credentials for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import fsspec

from clickline.compat.paddlerec.submission.config_ini import DATA, ConfigIni
from clickline.compat.paddlerec.submission.credentials import Credentials, find_credentials, how_to_give, reference
from clickline.config.secrets.secret_checks import carries_password
from clickline.errors import JobError, JobProblem
from clickline.files.storage import is_local, is_url, protocol_of


@dataclass(slots=True)
class NodeStorage:
    """What was found."""

    credentials: Credentials = field(default_factory=Credentials)
    options: dict[str, str] = field(default_factory=dict, repr=False)
    """Of fsspec's file system: secret."""
    problems: list[JobProblem] = field(default_factory=list)


def check_storage(config: ConfigIni, stated: Mapping[str, str], *, file: Path | None) -> NodeStorage:
    """Look at all URLs of a config.ini. `stated` are credentials, or references to them; `file` may have others."""
    found = NodeStorage()
    try:
        found.credentials = find_credentials(stated, file=file)
    except JobError as error:
        found.problems.append(JobProblem("", str(error)))
        return found
    urls = [url for key in (*DATA, "output_path") if is_url(url := config.url(key)) and not is_local(url)]
    if any(carries_password(url) for url in urls):
        message = "the address holds a password: leave it out there, and give USER,PASSWORD by fs_ugi"
        found.problems.append(JobProblem("fs_name", message))
        return found
    for url in dict.fromkeys(urls):
        try:
            fsspec.get_filesystem_class(protocol_of(url))
            found.options = found.credentials.storage_options(url)
        except ImportError:
            found.options = found.credentials.storage_options(url)  # nodes need the package, not this machine
        except ValueError as error:
            message = f"{url}: {error}; name a file system that fsspec knows, such as webhdfs://HOST:PORT or s3://"
            found.problems.append(JobProblem("fs_name", message))
        except JobError as error:
            found.problems.append(JobProblem("fs_ugi", str(error)))
    if found.options and len({protocol_of(url) for url in urls}) > 1:
        found.problems.append(JobProblem("fs_ugi", "is for one file system, and URLs of several are named"))
    wanted = config.credentials.get("fs_ugi") == reference("fs_ugi")
    if urls and wanted and "fs_ugi" not in found.credentials.values:
        found.problems.append(JobProblem("fs_ugi", f"is not known: {how_to_give('fs_ugi')}"))
    return found
