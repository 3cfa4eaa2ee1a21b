"""Processes on one machine: started, watched, restarted, stopped, and their logs."""
