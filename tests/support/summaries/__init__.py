"""What all tests came to: printed at the end, written as JSON, and the table of docs/robustness.md."""
