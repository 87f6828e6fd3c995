"""Measuring: schedule, dialogue, host, environment rules and the memory pass. Knows nothing of judging."""
