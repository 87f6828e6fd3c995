"""Drafters: whatever proposes tokens for the target to verify. One small class each, one file each."""
