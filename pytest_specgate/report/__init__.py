"""Verdicts and measurements as people and machines read them. Nothing here decides anything."""
