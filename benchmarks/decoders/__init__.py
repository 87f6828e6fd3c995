"""The arms, the clock, the parts and the page of ``benchmarks/decoding.py``."""
