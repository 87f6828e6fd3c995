"""Whether two models speak of the same tokens, and making their score vectors equally long.

Checkpoints pad their embeddings to round numbers, so models that share a tokenizer may differ in rows that
no token uses. Such rows do not count; transformers refuses them, so the draft's are trimmed or padded.
"""

from __future__ import annotations

from typing import Any


def same(target: Any, draft: Any) -> bool:
    """Whether two tokenizers give every id that both use to the same token; True where the draft has none."""
    if draft is None:
        return True
    one = {index: token for token, index in target.get_vocab().items()}
    other = {index: token for token, index in draft.get_vocab().items()}
    return all(one[index] == other[index] for index in one.keys() & other.keys())


def fit(draft: Any, size: int) -> None:
    """Trim or pad the draft's rows to ``size``; a padded row scores 0, below any token worth drafting."""
    import torch

    before = int(draft.config.get_text_config().vocab_size)
    if before == size:
        return
    with torch.no_grad():
        draft.resize_token_embeddings(size, mean_resizing=False)
        for table in (draft.get_input_embeddings(), draft.get_output_embeddings()):
            table.weight[before:] = 0
