"""The commands beside pytest, ``python -m pytest_specgate``: one module each, no engine, no torch."""
