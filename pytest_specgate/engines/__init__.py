"""Adapters that generate tokens for both arms. Importing this package loads neither torch nor transformers."""
