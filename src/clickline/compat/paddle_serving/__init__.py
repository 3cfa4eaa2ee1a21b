"""Paddle Serving's GeneralModelService over HTTP."""
