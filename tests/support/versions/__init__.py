"""Version stores: with made-up rows, with real models, and what a training leaves to be published."""
