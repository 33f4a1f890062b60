"""OpenAI Chat Completions, by the types of the `openai` package."""

import json

import openai
from openai.types import CompletionUsage
from openai.types.chat import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessage,
    ChatCompletionMessageFunctionToolCall,
    completion_create_params,
)

from . import recorder
from .closed import closed
from .story import pieces

NAME = "openai-chat"
MODELS = ("gpt-5.1", "gpt-4.1")
OLDER_FIELDS = {}
# The types take them for any model.
REFUSED_FIELDS = {"gpt-5.1": {"temperature"}}
KEY_VARIABLE = "OPENAI_API_KEY"
HEADERS = ("authorization", "content-type")
COUNTS_CACHE_WRITES = True
# The types have no place for thoughts.
THINKS = False


def variables(url):
    """Where Sortie finds the server."""
    return {"OPENAI_BASE_URL": f"{url}/v1"}


def types(streaming):
    """The type of a request."""
    if streaming:
        return closed(completion_create_params.CompletionCreateParamsStreaming)
    return closed(completion_create_params.CompletionCreateParamsNonStreaming)


def _usage(turn):
    return CompletionUsage(
        prompt_tokens=turn.usage.input,
        completion_tokens=turn.usage.output,
        total_tokens=turn.usage.input + turn.usage.output,
        prompt_tokens_details={
            "cached_tokens": turn.usage.cache_read,
            "cache_write_tokens": turn.usage.cache_write,
        },
        completion_tokens_details={"reasoning_tokens": 3},
    )


def _calls(turn):
    return [
        ChatCompletionMessageFunctionToolCall(
            id=call.id,
            type="function",
            function={"name": call.name, "arguments": json.dumps(call.arguments)},
        )
        for call in turn.calls
    ]


def _stop(turn):
    return "tool_calls" if turn.calls else "stop"


def whole(turn):
    """The answer in one piece."""
    message = ChatCompletionMessage(
        role="assistant", content=turn.text or None, refusal=None, tool_calls=_calls(turn) or None
    )
    answer = ChatCompletion(
        id=f"chatcmpl-{turn.name}",
        object="chat.completion",
        created=1,
        model="gpt-contract",
        choices=[{"index": 0, "finish_reason": _stop(turn), "logprobs": None, "message": message}],
        usage=_usage(turn),
    )
    return recorder.whole(answer.model_dump_json(exclude_unset=True))


def stream(turn):
    """The answer as events."""
    chunks = [(None, chunk.model_dump_json(exclude_unset=True)) for chunk in _chunks(turn)]
    return recorder.stream([*chunks, (None, "[DONE]")])


def _chunks(turn):
    yield _chunk(turn, {"role": "assistant", "content": None if turn.calls else "", "refusal": None})
    if turn.text:
        for piece in pieces(turn.text):
            yield _chunk(turn, {"content": piece})
    for index, call in enumerate(turn.calls):
        function = {"name": call.name, "arguments": ""}
        yield _chunk(
            turn,
            {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]},
        )
        for piece in pieces(json.dumps(call.arguments)):
            yield _chunk(turn, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk(turn, {}, _stop(turn))
    yield _chunk(turn, None)


def _chunk(turn, delta, stop=None):
    """One piece; without a delta it is the one that tells the usage."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": stop, "logprobs": None}]
    return ChatCompletionChunk(
        id=f"chatcmpl-{turn.name}",
        object="chat.completion.chunk",
        created=1,
        model="gpt-contract",
        choices=choices,
        usage=_usage(turn) if delta is None else None,
    )


def history(body):
    """The answers in a request: each as a list of what it consisted of, nothing left out."""
    answers = [message for message in body["messages"] if message["role"] == "assistant"]
    return [_read(answer) for answer in answers]


def _read(answer):
    left = {key: value for key, value in answer.items() if key not in ("role", "content", "tool_calls")}
    calls = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in answer.get("tool_calls") or []
    ]
    return [answer.get("content") or "", *calls, *left.items()]


def expected_history(turns):
    """The same, as the server gave it."""
    return [[turn.text, *((call.id, call.name, call.arguments) for call in turn.calls)] for turn in turns]


def results(body):
    """The answers of tools, by the id of the call, as text."""
    found = (message for message in body["messages"] if message["role"] == "tool")
    return {message["tool_call_id"]: message["content"] for message in found}


def pictures(body):
    """The pictures in a request, in base 64."""
    lists = (message["content"] for message in body["messages"] if isinstance(message.get("content"), list))
    parts = (part for parts in lists for part in parts if part["type"] == "image_url")
    return [part["image_url"]["url"].partition(";base64,")[2] for part in parts]


def plain(body):
    """A body in the one of several spellings that everybody uses."""
    return body


def official(url, key, asked):
    """Lets the vendor's own client ask the same, and gives what it understood."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=30.0)
    body = dict(asked.body)
    if body.pop("stream"):
        with client.chat.completions.stream(**body) as events:
            message = events.get_final_completion().choices[0].message
    else:
        message = client.chat.completions.create(**body, stream=False).choices[0].message
    return _read(
        {
            "content": message.content,
            "tool_calls": [
                {"id": call.id, "function": {"name": call.function.name, "arguments": call.function.arguments}}
                for call in message.tool_calls or []
            ],
        }
    )


def understood(turn):
    """What it should have understood."""
    return expected_history([turn])[0]
