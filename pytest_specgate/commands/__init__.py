"""The commands beside pytest, ``python -m pytest_specgate``: one module each; all but ``study`` need no model."""
