"""The older stack's formats: SequenceFiles, donefiles, parameter files, transfer.conf and cube.conf.

Each module reads one of them, and writes it where somebody else still reads it. docs/older-formats.md describes all.
"""
