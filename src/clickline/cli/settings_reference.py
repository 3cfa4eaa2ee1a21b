"""References of serve.yaml, transfer.yaml and values.yaml, made from types; `clickline.cli.reference` writes them."""

from __future__ import annotations

from clickline.config.reference import SettingsReference
from clickline.cube.transfer.transfer_settings import TransferSettings
from clickline.deploy.values import Values
from clickline.serve.serve_settings import ServeConfig

_HEAD = """\
# {title}

Made from the types by `python -m clickline.cli.reference docs/reference`; edit the types, not this file.

{sentences}

It is read as a job is: YAML 1.2, an unknown key is an error with a suggestion, and all mistakes are reported at once,
each with its key and line, with exit code 3. Editors complete and check a file that begins with
`# yaml-language-server: $schema=<path or address of {name}.schema.json>`.
"""
_SERVE = """\
Settings of a predictor: `clickline serve --config serve.yaml`, and `clickline up --serve serve.yaml`, which adds its
own model. [Serving](../serving.md) explains them. The token is not part of the file: it comes from the environment."""
_TRANSFER = """\
Settings of a transfer: `clickline transfer transfer.yaml`, with the keys of Cube's transfer.conf, which is read too.
[The cube](../cube.md) explains them. The token is not part of the file: it comes from the environment."""
_VALUES = """\
Values of a suite in a cluster: `clickline deploy values.yaml`. [The suite on Kubernetes](../deploy.md) explains them.
No secret is in the file: it names Secrets of the cluster."""
SERVE = SettingsReference(
    "serve",
    ServeConfig,
    _HEAD.format(title="serve.yaml", name="serve", sentences=_SERVE),
    top="The predictor itself.",
)
TRANSFER = SettingsReference(
    "transfer",
    TransferSettings,
    _HEAD.format(title="transfer.yaml", name="transfer", sentences=_TRANSFER),
    top="What is delivered, from where, to whom.",
)
VALUES = SettingsReference(
    "values",
    Values,
    _HEAD.format(title="values.yaml", name="values", sentences=_VALUES),
    top="The suite itself.",
)
