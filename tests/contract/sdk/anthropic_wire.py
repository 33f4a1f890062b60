"""Anthropic Messages, by the types of the `anthropic` package."""

import json

import anthropic
from anthropic.types import (
    Message,
    MessageDeltaUsage,
    RawContentBlockDeltaEvent,
    RawContentBlockStartEvent,
    RawContentBlockStopEvent,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStopEvent,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
    message_create_params,
)

from . import recorder
from .closed import closed
from .story import pieces

NAME = "anthropic"
MODELS = ("claude-opus-4-5", "claude-opus-4-7")
# The types know only what the newest models take.
OLDER_FIELDS = {"claude-opus-4-5": {"temperature"}}
REFUSED_FIELDS = {}
KEY_VARIABLE = "ANTHROPIC_API_KEY"
HEADERS = ("x-api-key", "anthropic-version", "content-type")
COUNTS_CACHE_WRITES = True
THINKS = True


def variables(url):
    """Where Sortie finds the server."""
    return {"ANTHROPIC_BASE_URL": url}


def types(streaming):
    """The type of a request."""
    if streaming:
        return closed(message_create_params.MessageCreateParamsStreaming)
    return closed(message_create_params.MessageCreateParamsNonStreaming)


def _blocks(turn):
    if turn.thought:
        yield ThinkingBlock(type="thinking", thinking=turn.thought, signature=turn.signature)
    if turn.redacted:
        yield RedactedThinkingBlock(type="redacted_thinking", data=turn.redacted)
    if turn.text:
        yield TextBlock(type="text", text=turn.text)
    for call in turn.calls:
        yield ToolUseBlock(type="tool_use", id=call.id, name=call.name, input=call.arguments)


def _usage(turn, output):
    return Usage(
        input_tokens=turn.usage.fresh,
        cache_read_input_tokens=turn.usage.cache_read,
        cache_creation_input_tokens=turn.usage.cache_write,
        output_tokens=output,
    )


def _message(turn, content, stop, output):
    return Message(
        id=f"msg_{turn.name}",
        type="message",
        role="assistant",
        model="claude-contract",
        content=content,
        stop_reason=stop,
        usage=_usage(turn, output),
    )


def _stop(turn):
    return "tool_use" if turn.calls else "end_turn"


def whole(turn):
    """The answer in one piece."""
    message = _message(turn, list(_blocks(turn)), _stop(turn), turn.usage.output)
    return recorder.whole(message.model_dump_json(exclude_unset=True))


def stream(turn):
    """The answer as events."""
    return recorder.stream((event.type, event.model_dump_json(exclude_unset=True)) for event in _events(turn))


def _events(turn):
    yield RawMessageStartEvent(type="message_start", message=_message(turn, [], None, 1))
    for index, block in enumerate(_blocks(turn)):
        yield RawContentBlockStartEvent(type="content_block_start", index=index, content_block=_opened(block))
        for delta in _deltas(block):
            yield RawContentBlockDeltaEvent(type="content_block_delta", index=index, delta=delta)
        yield RawContentBlockStopEvent(type="content_block_stop", index=index)
    yield RawMessageDeltaEvent(
        type="message_delta",
        delta={"stop_reason": _stop(turn)},
        usage=MessageDeltaUsage(output_tokens=turn.usage.output),
    )
    yield RawMessageStopEvent(type="message_stop")


def _opened(block):
    empty = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}
    return block.model_copy(update=empty.get(block.type, {}))


def _deltas(block):
    if block.type == "thinking":
        for piece in pieces(block.thinking):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block.signature}
    if block.type == "text":
        for piece in pieces(block.text):
            yield {"type": "text_delta", "text": piece}
    if block.type == "tool_use":
        for piece in pieces(json.dumps(block.input)):
            yield {"type": "input_json_delta", "partial_json": piece}


def history(body):
    """The answers in a request: each as a list of what it consisted of, nothing left out."""
    answers = [message for message in body["messages"] if message["role"] == "assistant"]
    return [[_unmarked(block) for block in answer["content"]] for answer in answers]


def expected_history(turns):
    """The same, as the server gave it."""
    return [[block.model_dump(exclude_unset=True) for block in _blocks(turn)] for turn in turns]


def _unmarked(block):
    return {key: value for key, value in block.items() if key != "cache_control"}


def results(body):
    """The answers of tools, by the id of the call, as text."""
    blocks = (block for message in body["messages"] for block in message["content"])
    found = (block for block in blocks if block["type"] == "tool_result")
    return {block["tool_use_id"]: json.dumps(block["content"], ensure_ascii=False) for block in found}


def pictures(body):
    """The pictures in a request, in base 64."""
    blocks = (block for message in body["messages"] for block in message["content"])
    inside = (part for block in blocks if block["type"] == "tool_result" for part in block["content"])
    return [part["source"]["data"] for part in inside if part["type"] == "image"]


def plain(body):
    """A body in the one of several spellings that everybody uses."""
    return body


def official(url, key, asked):
    """Lets the vendor's own client ask the same, and gives what it understood."""
    client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=30.0)
    body = dict(asked.body)
    if body.pop("stream"):
        with client.messages.stream(**body) as events:
            message = events.get_final_message()
    else:
        message = client.messages.create(**body, stream=False)
    return [block.model_dump(exclude_unset=True, exclude={"parsed_output"}) for block in message.content]


def understood(turn):
    """What it should have understood."""
    return expected_history([turn])[0]
