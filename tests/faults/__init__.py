"""The fault zoo: real faults of speculative decoders in miniature, and whether the shipped gates see them.

``zoo.py`` is the registry, one frozen entry per fault; the mutants stand in ``correctness/``, ``drafting/`` and so on,
each our own decoder with one part exchanged; ``python -m tests.faults`` runs them all and writes ``docs/faults.md``.
"""
