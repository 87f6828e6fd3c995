"""The fault zoo: real faults of speculative decoders in miniature, and whether the shipped gates see them.

``zoo.py`` is the registry, one frozen entry per fault; entries stand beside their mutants, by what they break, each our
own decoder with one part (``parts.py``) exchanged; ``settings.py`` holds what they are asked and the gates that judge
them. ``python -m tests.faults`` runs them all and writes ``docs/faults.md``.
"""
