"""Servers behind HTTP: what is asked of them, what comes back, and what their answers are worth.

``wire`` writes requests and ``client`` sends them, stamping what arrives; ``sse``, ``stream`` and ``accounting`` are
pure and turn stamped bytes into counted chunks; ``dialects`` know one server software each; ``process`` starts a server
from a command and ends it, through a ``keeper`` of its own.
"""
