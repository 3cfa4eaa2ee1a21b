"""The kinds of fault."""
