"""An exact, batched speculative decoder on the model classes of transformers.

Both arms are one loop (``loop.Decoder``): a round drafts, verifies and keeps, and one that drafts nothing is plain
decoding. Every part is a small class that can be exchanged: drafters, verifier, processors, cache, stop rule,
scheduler, meter. Nothing here knows engines, suites or pytest; its modules import torch and transformers at once, so
import them only where a model is about to run.
"""
