"""Holds Sortie's wires against the official SDKs of the vendors.

For each wire, streaming and not, the real binary works through a story with a server on loopback that
answers with objects of the SDK's own classes. What Sortie sends has to fit the SDK's own parameter
types, with no field too much; the vendor's own client, given the same request, has to send the same
JSON and to read the same answer; and what the server gave has to come back unchanged. That the types can
say no is shown on each request: with any one key misspelt it has to be refused.

    check_sdk.py PATH_OF_SORTIE SCRATCH_FOLDER
"""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from sdk import anthropic_wire, chat_wire, closed, gemini_wire, responses_wire, story
from sdk.recorder import Recorder

WIRES = (chat_wire, responses_wire, anthropic_wire, gemini_wire)
KEY = "contract-key"
VENDOR_VARIABLES = ("ANTHROPIC_", "GEMINI_", "GOOGLE_", "OPENAI_")
# A run on loopback takes well under a second; this is for a busy machine.
RUN_SECONDS = 60
# How much of a difference is shown.
MAX_SHOWN = 12
SHOWN_CHARS = 300
NOTHING = object()
SCHEMA = {
    "type": "object",
    "properties": {"fruit": {"type": "string"}},
    "required": ["fruit"],
    "additionalProperties": False,
}
FRUIT = replace(story.PLAIN, text='{"fruit":"mango"}')


class Broken(Exception):
    """A contract does not hold."""


def expect(found, wanted, what):
    """Ends the case unless two things are the same."""
    if found != wanted:
        places = list(differences(found, wanted))
        left = [f"and {len(places) - MAX_SHOWN} more"] if len(places) > MAX_SHOWN else []
        raise Broken("\n        ".join([what, *places[:MAX_SHOWN], *left]))


def differences(found, wanted, place="it"):
    """Where two values differ, one line for each place."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted(found.keys() | wanted.keys()):
            yield from differences(found.get(key, NOTHING), wanted.get(key, NOTHING), f"{place}.{key}")
    elif isinstance(found, list) and isinstance(wanted, list):
        for at in range(max(len(found), len(wanted))):
            pair = (values[at] if at < len(values) else NOTHING for values in (found, wanted))
            yield from differences(*pair, f"{place}[{at}]")
    elif found != wanted:
        yield f"{place}: found {shown(found)}, wanted {shown(wanted)}"


def shown(value):
    """A value on a line, not too long."""
    if value is NOTHING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"


class World:
    """The binary, a folder to work in and the server."""

    def __init__(self, binary, scratch, server):
        self.binary, self.scratch, self.server = binary, Path(scratch), server

    def run(self, wire, model, told, streaming):
        """Lets Sortie work through a story; gives its record and what it asked."""
        home, workspace = self._folders(told)
        self.server.play((wire.stream if streaming else wire.whole)(turn) for turn in told.turns)
        command = [self.binary, "run", "Work through the story.", "--json"]
        command += ["--model", f"{wire.NAME}/{model}", "--workspace", str(workspace)]
        command += ["-c", f"providers.{wire.NAME}.streaming={str(streaming).lower()}", *told.flags]
        done = subprocess.run(
            command,
            cwd=self.scratch,
            env=self._variables(wire, home),
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise Broken(f"sortie ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return json.loads(done.stdout), list(self.server.asked)

    def _folders(self, told):
        home, workspace = self.scratch / "home", self.scratch / "workspace"
        for folder in (home, workspace):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        for name, content in told.files.items():
            path = workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (self.scratch / "schema.json").write_text(json.dumps(SCHEMA))
        return home, workspace

    def _variables(self, wire, home):
        """Nothing of the machine's own: no key, no address, no proxy."""
        return {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(home),
            "SORTIE_HOME": str(home / "sortie"),
            "LANG": "C.UTF-8",
            wire.KEY_VARIABLE: KEY,
            **wire.variables(self.server.url),
        }


def check_requests(wire, model, asked, streaming):
    """Each request fits the SDK's type, and no misspelling of it would; tells how many were tried."""
    validator = wire.types(streaming)
    older = wire.OLDER_FIELDS.get(model, set())
    bodies = [{key: value for key, value in request.body.items() if key not in older} for request in asked]
    for number, body in enumerate(bodies, 1):
        expect(closed.problems(validator, body), [], f"request {number} does not fit the SDK's type")
        refused = sorted(wire.REFUSED_FIELDS.get(model, set()) & set(body))
        expect(refused, [], f"request {number} has fields that {model} refuses")
    tried, unnoticed = closed.misspellings(validator, bodies[-1])
    expect(unnoticed, [], "misspelt fields that the check did not notice")
    return tried


def check_conversation(wire, told, record, asked):
    """Sortie did what the server said, and sent back what the server gave."""
    expect(record["status"], "completed", "status")
    expect(record["result"], told.ending, "result")
    expect(len(asked), len(told.turns), "number of requests")
    for number, request in enumerate(asked):
        expect(wire.history(request.body), wire.expected_history(told.turns[:number]), "the history sent back")
    found = wire.results(asked[-1].body)
    calls = [call for turn in told.turns for call in turn.calls]
    expect(sorted(found), sorted(call.id for call in calls), "calls that were answered")
    for call in calls:
        if call.shows not in found[call.id]:
            raise Broken(f"the result of {call} does not show {call.shows!r}: {found[call.id]}")
    expect(record["tool_calls"], len(calls), "number of calls in the record")
    shows_picture = any(call.arguments.get("path") == story.PICTURE_PATH for call in calls)
    picture = [base64.b64encode(story.PICTURE_BYTES).decode()] if shows_picture else []
    expect(wire.pictures(asked[-1].body), picture, "pictures")


def check_usage(wire, told, record):
    """Tokens are counted, those of the cache too."""
    total = {
        "input_tokens": sum(turn.usage.input for turn in told.turns),
        "output_tokens": sum(turn.usage.output for turn in told.turns),
        "cache_read_tokens": sum(turn.usage.cache_read for turn in told.turns),
    }
    if wire.COUNTS_CACHE_WRITES:
        total["cache_write_tokens"] = sum(turn.usage.cache_write for turn in told.turns)
    expect({key: record["usage"][key] for key in total}, total, "usage")


def check_official(world, wire, told, asked, streaming):
    """The vendor's own client sends the same request, and reads the same answer."""
    for request, turn in zip(asked, told.turns):
        world.server.play([(wire.stream if streaming else wire.whole)(turn)])
        expect(wire.official(world.server.url, KEY, request), wire.understood(turn), "what the SDK's client read")
        theirs = world.server.asked[0]
        expect(request.path, theirs.path, "path")
        expect(known(wire, request.headers), known(wire, theirs.headers), "headers")
        expect(wire.plain(spoken(request)), wire.plain(spoken(theirs)), "body, against that of the SDK's client")


def known(wire, headers):
    """The headers that carry the contract."""
    return {name: headers.get(name) for name in wire.HEADERS}


def spoken(asked):
    """A body without the word that says what holds anyway."""
    return {key: value for key, value in asked.body.items() if (key, value) != ("stream", False)}


def work(world, wire, streaming):
    """The whole story: thinking, calls beside each other, a picture, the cache."""
    told = replace(story.WORK, flags=("--thinking", "high") if wire.THINKS else ())
    model = wire.MODELS[0]
    record, asked = world.run(wire, model, told, streaming)
    tried = check_requests(wire, model, asked, streaming)
    check_conversation(wire, told, record, asked)
    check_usage(wire, told, record)
    check_official(world, wire, told, asked, streaming)
    return f"{len(asked)} requests, {tried} misspellings refused"


def ways_of_asking(world, wire, streaming):
    """One answer for each flag that changes what is sent, with older and newer models."""
    cases = [
        ((), story.PLAIN),
        (("--thinking", "low"), story.PLAIN),
        (("--thinking", "off"), story.PLAIN),
        (("--temperature", "0.25", "--max-tokens", "1500"), story.PLAIN),
        (("--schema", "schema.json"), FRUIT),
    ]
    broken, tried = [], 0
    for model, (flags, turn) in itertools.product(wire.MODELS, cases):
        told = story.Story(turns=(turn,), flags=flags)
        try:
            record, asked = world.run(wire, model, told, streaming)
            tried += check_requests(wire, model, asked, streaming)
            check_conversation(wire, told, record, asked)
        except Broken as problem:
            broken.append(f"with {' '.join([model, *flags])}: {problem}")
    if broken:
        raise Broken("\n    ".join(broken))
    return f"{len(wire.MODELS) * len(cases)} requests, {tried} misspellings refused"


def forget_the_machine():
    """The vendors' clients read variables too: keys, addresses, proxies."""
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(VENDOR_VARIABLES):
            del os.environ[name]


def main():
    """Runs all cases; the exit code is 1 if any broke."""
    binary, scratch = sys.argv[1:]
    forget_the_machine()
    broken = 0
    with Recorder() as server:
        world = World(binary, scratch, server)
        for wire in WIRES:
            for case, streaming in ((work, True), (work, False), (ways_of_asking, True)):
                name = f"{wire.NAME}, {'streaming' if streaming else 'whole'}, {case.__name__.replace('_', ' ')}"
                start = time.monotonic()
                try:
                    found = case(world, wire, streaming)
                    print(f"    ok  {time.monotonic() - start:4.1f} s  {name}: {found}", flush=True)
                except (Broken, subprocess.TimeoutExpired) as problem:
                    broken += 1
                    print(f"BROKEN  {name}: {problem}", flush=True)
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
