"""The predictor: models by name, their versions, and batches of requests answered from one version each."""
