"""Parameter files of PaddlePaddle."""
