"""Tables and pages that verbs print for people."""
