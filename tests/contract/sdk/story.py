"""What the model does in the tests, in no vendor's words."""

from dataclasses import dataclass, field

# A name that has to be escaped in JSON, twice where arguments are text, and cut inside a character.
AWKWARD_PATH = 'notes/ä "q" \\ 文件.txt'
PICTURE_PATH = "dot.png"
PICTURE_BYTES = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0"
    "000003010100c9fe92ef0000000049454e44ae426082"
)
FILES = {
    AWKWARD_PATH: "the fruit is mango\n".encode(),
    "b.txt": "the tree is oak\nthe bird is a wren\n".encode(),
    PICTURE_PATH: PICTURE_BYTES,
}


@dataclass(frozen=True)
class Call:
    """A tool to call. `shows` is a part of what the tool really answers."""

    id: str
    arguments: dict
    shows: str
    name: str = "read_file"


@dataclass(frozen=True)
class Usage:
    """Tokens as Sortie counts them: `input` holds what was read from and written to the cache."""

    input: int
    output: int
    cache_read: int = 0
    cache_write: int = 0

    @property
    def fresh(self):
        """What came neither from the cache nor went there."""
        return self.input - self.cache_read - self.cache_write


@dataclass(frozen=True)
class Turn:
    """One answer of the model."""

    text: str
    usage: Usage
    calls: tuple = ()
    thought: str = ""
    signature: str = ""
    redacted: str = ""

    @property
    def name(self):
        """Something to tell answers apart by, for the ids of a wire."""
        return f"turn{self.usage.output}"


@dataclass(frozen=True)
class Story:
    """A conversation from the first question to the last answer."""

    turns: tuple
    flags: tuple = ()
    files: dict = field(default_factory=lambda: FILES)

    @property
    def ending(self):
        """The last words."""
        return self.turns[-1].text


PLAIN = Turn(text="Nothing to do. 完成 ✅", usage=Usage(input=11, output=7))

WORK = Story(
    turns=(
        Turn(
            thought="First two files at once.",
            signature="c2lnbmF0dXJlLW9uZSsv",
            redacted="cmVkYWN0ZWQtb25l",
            text="I read two files.",
            calls=(
                Call("call_Aa1", {"path": AWKWARD_PATH}, "the fruit is mango"),
                Call("call_Bb2", {"path": "b.txt", "offset": 2, "limit": 1}, "the bird is a wren"),
            ),
            usage=Usage(input=1000, output=41, cache_read=300, cache_write=500),
        ),
        Turn(
            thought="Now the picture.",
            signature="c2lnbmF0dXJlLXR3bw",
            text="",
            calls=(Call("call_Cc3", {"path": PICTURE_PATH}, PICTURE_PATH),),
            usage=Usage(input=1200, output=42, cache_read=800, cache_write=100),
        ),
        Turn(
            text="Done: a mango, a wren and one dot. 完成 ✅",
            usage=Usage(input=1400, output=43, cache_read=900),
        ),
    ),
)


def pieces(text, count=5):
    """The text in pieces of so many characters; never none."""
    return [text[at : at + count] for at in range(0, len(text), count)] or [""]
