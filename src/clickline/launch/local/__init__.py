"""The launcher for this machine: what to start, and a run in which it is started, watched and stopped.

local_processes  the processes of a job here, and where they listen
training_run     trains a job the way it names, in one process or in many
local_jobs       a job on this machine by its record
"""
