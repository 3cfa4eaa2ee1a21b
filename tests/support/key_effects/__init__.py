"""Walks every key of the job for every strategy: has it an effect, is it refused, or is it reported?"""
