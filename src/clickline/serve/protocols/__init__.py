"""How a prediction is asked for and answered: JSON rows, Open Inference, gRPC, ElasticCTR."""
