"""The server, the clients and the tables of ``benchmarks/serving.py``."""
