"""Files in the shape of PaddleRec's: config.yaml of every model of the zoo, and sample data for each."""
