"""Pages, tables and progress that verbs show to people."""
