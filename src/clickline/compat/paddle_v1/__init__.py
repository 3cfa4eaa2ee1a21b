"""The cluster scripts of PaddlePaddle before version 1: their conf.py and the flags of their paddle.py."""
