"""Formats, names and URLs of the systems that Clickline replaces, translated at the edge."""
