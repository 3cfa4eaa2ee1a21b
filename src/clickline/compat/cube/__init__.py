"""Cube's formats: SequenceFiles, donefiles, transfer.conf, cube.conf, and in http/ its HTTP interfaces.

Each module reads one of them, and writes it where other programs still read it. docs/compatibility.md describes all.
"""
