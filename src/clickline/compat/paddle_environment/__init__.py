"""PADDLE_* variables and FLAGS_communicator_* of PaddlePaddle's launchers."""
