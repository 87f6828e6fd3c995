"""A tokenizer of single characters with a chat template, made in memory: for models of random weights.

It knows printable ASCII and the line break; anything else is one unknown token. What such a model writes is nonsense
that can be read and compared.
"""

from __future__ import annotations

from typing import Any

SPECIAL = ("<unk>", "<bos>", "<eos>", "<user>", "<assistant>", "<system>")
CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
#: Tokens in all: a model has as many rows of embeddings.
ROWS = len(SPECIAL) + len(CHARACTERS)
BOS, EOS = SPECIAL.index("<bos>"), SPECIAL.index("<eos>")
_TEMPLATE = (
    "<bos>{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def tokenizer() -> Any:
    """The tokenizer as transformers' classes are."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = (*SPECIAL, *CHARACTERS)
    inner = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token=SPECIAL[0]))
    inner.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    inner.decoder = decoders.Fuse()
    unknown, begin, end = SPECIAL[:3]
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token=unknown,
        bos_token=begin,
        eos_token=end,
        pad_token=end,
        clean_up_tokenization_spaces=False,
    )
    made.chat_template = _TEMPLATE
    return made
