"""Parts of a model that `train.frozen` keeps as they are: which ones, and how."""
