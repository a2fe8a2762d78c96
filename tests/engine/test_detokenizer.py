"""Text from tokens as they come: equal to the text of all tokens, and never to be taken back."""

from __future__ import annotations

from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from onelaunch.engine.detokenizer import Detokenizer, StopStrings
from onelaunch.engine.tokenizer import byte_tokenizer
from server.fake_core import ByteTokenizer


class RealBytes:
    """The engine's own byte tokenizer, whose ids are not the bytes."""

    def __init__(self) -> None:
        self._backend = byte_tokenizer()

    def encode(self, text):
        return self._backend.encode(text).ids

    def decode(self, token_ids):
        return self._backend.decode(list(token_ids), skip_special_tokens=True)


class Words:
    """A tokenizer that writes a space before every word but a text's first."""

    def decode(self, token_ids):
        return " ".join(f"w{token}" for token in token_ids)


# Valid text, cut text, bytes that are none, and special tokens.
mixed = st.lists(
    st.one_of(
        st.sampled_from([[*c.encode()] for c in "aé漢🙂\ufffd"]),
        st.sampled_from([[0xFF], [0xE6, 0xBC], [0xF0, 0x9F], [0x80], [256], [257]]),
        st.lists(st.integers(0, 257), max_size=3),
    ),
    max_size=12,
).map(lambda parts: list(chain(*parts)))


def pieces(decoder, token_ids) -> list[str]:
    detokenizer = Detokenizer(decoder)
    parts = [detokenizer.add(token_id) for token_id in token_ids]
    parts.append(detokenizer.flush())
    assert detokenizer.num_chars == sum(map(len, parts))
    return parts


@given(mixed)
@settings(max_examples=400)
def test_the_pieces_join_to_the_text_of_all_tokens(token_ids):
    for decoder in (ByteTokenizer(), RealBytes()):
        assert "".join(pieces(decoder, token_ids)) == decoder.decode(token_ids)


@given(st.lists(st.integers(0, 99)))
def test_a_tokenizer_that_writes_a_first_word_differently(token_ids):
    assert "".join(pieces(Words(), token_ids)) == Words().decode(token_ids)


def test_a_character_comes_with_its_last_byte():
    real = RealBytes()
    assert pieces(real, real.encode("a漢")) == ["a", "", "", "漢", ""]


def test_bytes_that_can_be_no_character_come_as_soon_as_that_is_sure():
    assert pieces(ByteTokenizer(), [0xE6, 0xBC, 0x41, 0xFF]) == ["", "", "\ufffdA", "", "\ufffd"]


def test_a_long_run_of_broken_bytes_is_not_held_back():
    parts = pieces(ByteTokenizer(), [0xFF] * 50)
    assert all(len(part) == 1 for part in parts[1:])


def test_broken_bytes_take_no_longer_the_more_there_are():
    class Counting(ByteTokenizer):
        decoded = 0

        def decode(self, token_ids):
            self.decoded += len(token_ids)
            return super().decode(token_ids)

    decoder = Counting()
    ids = [0x80] * 2000
    assert "".join(pieces(decoder, ids)) == ByteTokenizer().decode(ids)
    assert decoder.decoded < 100 * len(ids)


# Stop strings.


def shown(stop, texts, **options) -> tuple[str, str | None]:
    strings = StopStrings(stop, **options)
    out = ""
    for text in texts:
        part, found = strings.add(text)
        out += part
        if found is not None:
            return out, found
    return out + strings.flush(), None


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
    st.lists(st.text("abc", max_size=3), max_size=12),
)
@settings(max_examples=400)
def test_a_stop_string_is_found_however_the_text_is_cut(stop, texts):
    text, found = shown(stop, texts)
    whole = "".join(texts)
    ends = [whole.find(string) for string in stop if string in whole]
    if found is None:
        assert not ends and text == whole
    else:
        # The stop string that was complete first; a longer one may have begun before it.
        first_end = min(whole.find(string) + len(string) for string in stop if string in whole)
        assert whole.startswith(text + found) and found in stop
        assert len(text) >= min(ends)
        assert any(whole[:end].endswith(found) for end in range(first_end, len(whole) + 1))


def test_only_what_may_begin_a_stop_string_is_held_back():
    strings = StopStrings(["</s>", "END"])
    assert strings.add("a <") == ("a ", None)
    assert strings.add("b") == ("<b", None)
    assert strings.add("</") == ("", None)
    assert strings.add("</s") == ("</", None)
    assert strings.add("> E") == ("", "</s>")


def test_the_stop_string_may_stay():
    assert shown(["cd"], ["abc", "def"], included=True) == ("abcd", "cd")
    assert shown(["cd"], ["abc", "def"]) == ("ab", "cd")
