"""Secrets of a job: it holds ${env:NAME} in their place, and each is looked up where and when it is used.

secret_checks      what a job may say: references, and no secret written out
secret_references  references replaced by the variables that they name
"""
