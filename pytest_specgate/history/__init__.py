"""Runs over time: each run's summary as a line of a file, and what a metric did from commit to commit.

``record`` says what a line holds, ``store`` appends and reads lines, ``commit`` finds out which commit a run is of,
``collect`` draws the line from a report, ``series`` puts runs of one question in order, ``trend`` says what changed,
and ``wording``, ``table`` and ``page`` tell it.
"""
