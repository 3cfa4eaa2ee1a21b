"""What a run reports while it trains: journal, TensorBoard, Prometheus metrics, status, progress."""
