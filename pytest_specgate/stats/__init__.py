"""Intervals and comparisons: numpy and scipy, no torch, no knowledge of suites or metrics.

Every function returns limits or says in words why the data cannot give any; none raises on data, none warns.
"""
