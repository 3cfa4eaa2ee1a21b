"""Small click logs, what users download, and plain parsers to compare the native ones with."""
