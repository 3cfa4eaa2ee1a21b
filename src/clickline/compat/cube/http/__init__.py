"""Cube's HTTP interfaces of cube server, agent and transfer: routes that are mounted beside our own.

Each module translates requests of Cube's shape into calls of our classes, and their results back. The processes get
the routes as a parameter: nothing in `clickline.cube` knows of them. docs/reference/cube-http.md has the shapes.
"""
