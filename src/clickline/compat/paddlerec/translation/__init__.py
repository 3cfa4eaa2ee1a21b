"""From PaddleRec's files to our own job: model, rows, optimizer, cluster."""
