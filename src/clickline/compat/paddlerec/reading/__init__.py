"""PaddleRec's files as typed objects, with the line of every key."""
