"""Text to token ids and back: the checkpoint's ``tokenizer.json``, or bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from onelaunch.engine.model.config import ModelConfig

FILE_NAME = "tokenizer.json"
# After the 256 bytes, in this order. Their ids are those of ModelConfig's defaults.
SPECIAL_TOKENS = ("<|bos|>", "<|eos|>", "<|noise|>", "<|system|>", "<|user|>", "<|assistant|>")
_ROLES = ("system", "user", "assistant")


class Tokenizer:
    """A tokenizer of the ``tokenizers`` package, and the model's end-of-sequence token.

    Attributes:
        vocab_size: the model's; the tokenizer's own may be smaller.
        eos_token_id: of the model.
    """

    def __init__(self, backend: object, config: ModelConfig) -> None:
        from tokenizers import Tokenizer as Backend

        assert isinstance(backend, Backend)
        self._backend = backend
        self.vocab_size = config.vocab_size
        self.eos_token_id = config.eos_token_id
        self._longest = max(map(len, backend.get_vocab(with_added_tokens=True)))

    @staticmethod
    def load(folder: Path | None, config: ModelConfig) -> Tokenizer:
        """The tokenizer of a checkpoint folder; bytes when it has none, or without a folder.

        Raises:
            ValueError: the file is broken, has more tokens than the model, or the package is missing.
        """
        try:
            from tokenizers import Tokenizer as Backend
        except ImportError as error:
            raise ValueError("tokenizers is not installed: pip install onelaunch[engine]") from error
        path = None if folder is None else folder / FILE_NAME
        if path is None or not path.exists():
            return Tokenizer(byte_tokenizer(), config)
        try:
            backend = Backend.from_file(str(path))
        except Exception as error:  # the package raises nothing narrower
            raise ValueError(f"{path} is not a tokenizer: {error}") from error
        size = backend.get_vocab_size()
        if size > config.vocab_size:
            raise ValueError(
                f"{path} has {size} tokens: it must have at most the model's {config.vocab_size}"
            )
        return Tokenizer(backend, config)

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``; nothing is added to it. Special tokens are recognised where they are written
        out.
        """
        # A batch of one: the plain call holds Python's lock, for seconds when a text has megabytes.
        return list(self._backend.encode_batch_fast([text], add_special_tokens=False)[0].ids)

    def may_fit(self, text: str, num_tokens: int) -> bool:
        """Whether ``text`` may be so few tokens, told without encoding it.

        No token has more characters than the vocabulary's longest.
        """
        return len(text) <= num_tokens * self._longest

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ``token_ids``, without special tokens. Bytes that are no character yet show as U+FFFD."""
        return str(self._backend.decode(list(token_ids), skip_special_tokens=True))

    def apply_chat_template(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The prompt of a chat: each message after its role's token, and the assistant's turn at the end.

        Raises:
            ValueError: a role that there is no token for, or no message.
        """
        if not messages:
            raise ValueError("messages is empty: it must have at least one message")
        parts = []
        for message in messages:
            role = message["role"]
            if role not in _ROLES:
                raise ValueError(f"role is {role!r}: it must be one of {', '.join(_ROLES)}")
            parts.append(f"<|{role}|>{message['content']}")
        return "".join(parts) + "<|assistant|>"


def byte_tokenizer() -> object:
    """One token a byte, and the special tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL_TOKENS])
    return backend
