"""Many processes train one model: a coordinator, parameter servers, trainers."""
