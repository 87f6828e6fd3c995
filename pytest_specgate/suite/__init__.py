"""Suites: YAML with positions → a frozen model → cases. Reads files, runs nothing."""
