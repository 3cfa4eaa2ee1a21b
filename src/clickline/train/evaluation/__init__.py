"""How good predictions are: metrics, calibration, slices, and the pass over a data set that measures them."""
