"""Importers: a public dataset as it was downloaded becomes training rows, test rows and a job that is ready to train.

Nothing is downloaded here: the terms of these datasets want each user to fetch them. Rows stay in the order of time,
and the last of them are for testing, since a model is always asked about what happens after its training.
"""

from clickline.data.importers.avazu import import_avazu
from clickline.data.importers.criteo import import_criteo
from clickline.data.importers.import_output import Imported
from clickline.data.importers.movielens import import_movielens

__all__ = ["Imported", "import_avazu", "import_criteo", "import_movielens"]
