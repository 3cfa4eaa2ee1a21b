"""The whole chain on one machine, as `clickline.up` runs it: stages, events, and the evaluation through the server."""
