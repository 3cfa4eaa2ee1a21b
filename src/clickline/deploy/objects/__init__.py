"""The objects of each part of a suite. No cluster is asked for any of them."""
