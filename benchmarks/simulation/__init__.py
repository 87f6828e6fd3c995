"""Simulated machines and decoders, judged by the shipped gates; ``simulate.py`` beside this folder writes tables."""
