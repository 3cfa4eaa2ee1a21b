"""Messages of the Open Inference Protocol over gRPC: open_inference.proto, and the Python made from it."""
