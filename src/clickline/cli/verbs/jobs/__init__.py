"""Verbs about jobs by their records, whichever launcher started them: jobs, stop; `status` and `logs` know them too."""
