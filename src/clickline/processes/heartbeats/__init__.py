"""Heartbeats: proof of a process to its supervisor that its main loop runs.

heartbeat          the side of the process
heartbeat_monitor  the side of the supervisor
"""
