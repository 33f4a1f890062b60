"""OpenAI Responses, by the types of the `openai` package."""

import json

import openai
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseCreatedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseReasoningSummaryPartAddedEvent,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseTextDeltaEvent,
    ResponseTextDoneEvent,
    ResponseUsage,
    response_create_params,
)

from . import recorder
from .closed import closed
from .story import pieces

NAME = "openai"
MODELS = ("gpt-5.1", "gpt-4.1")
OLDER_FIELDS = {}
# The types take them for any model.
REFUSED_FIELDS = {"gpt-5.1": {"temperature"}}
KEY_VARIABLE = "OPENAI_API_KEY"
HEADERS = ("authorization", "content-type")
COUNTS_CACHE_WRITES = True
THINKS = True


def variables(url):
    """Where Sortie finds the server."""
    return {"OPENAI_BASE_URL": f"{url}/v1"}


def types(streaming):
    """The type of a request."""
    if streaming:
        return closed(response_create_params.ResponseCreateParamsStreaming)
    return closed(response_create_params.ResponseCreateParamsNonStreaming)


def _items(turn):
    if turn.thought:
        yield ResponseReasoningItem(
            type="reasoning",
            id=f"rs_{turn.name}",
            summary=[{"type": "summary_text", "text": turn.thought}],
            encrypted_content=turn.signature,
        )
    if turn.text:
        yield ResponseOutputMessage(
            type="message",
            id=f"msg_{turn.name}",
            role="assistant",
            status="completed",
            content=[_text(turn.text)],
        )
    for call in turn.calls:
        yield ResponseFunctionToolCall(
            type="function_call",
            id=f"fc_{call.id}",
            call_id=call.id,
            name=call.name,
            arguments=json.dumps(call.arguments),
            status="completed",
        )


def _text(text):
    return ResponseOutputText(type="output_text", text=text, annotations=[])


def _response(turn, output, status):
    usage = ResponseUsage(
        input_tokens=turn.usage.input,
        input_tokens_details={
            "cached_tokens": turn.usage.cache_read,
            "cache_write_tokens": turn.usage.cache_write,
        },
        output_tokens=turn.usage.output,
        output_tokens_details={"reasoning_tokens": 3},
        total_tokens=turn.usage.input + turn.usage.output,
    )
    return Response(
        id=f"resp_{turn.name}",
        object="response",
        created_at=1,
        model="gpt-contract",
        status=status,
        output=output,
        parallel_tool_calls=True,
        tool_choice="auto",
        tools=[],
        error=None,
        incomplete_details=None,
        instructions=None,
        usage=usage if status == "completed" else None,
    )


def whole(turn):
    """The answer in one piece."""
    answer = _response(turn, list(_items(turn)), "completed")
    return recorder.whole(answer.model_dump_json(exclude_unset=True))


def stream(turn):
    """The answer as events."""
    numbered = (
        event.model_copy(update={"sequence_number": number}) for number, event in enumerate(_events(turn))
    )
    return recorder.stream((event.type, event.model_dump_json(exclude_unset=True)) for event in numbered)


def _events(turn):
    yield ResponseCreatedEvent(
        type="response.created", sequence_number=0, response=_response(turn, [], "in_progress")
    )
    for index, item in enumerate(_items(turn)):
        yield ResponseOutputItemAddedEvent(
            type="response.output_item.added", sequence_number=0, output_index=index, item=_opened(item)
        )
        place = {"sequence_number": 0, "output_index": index, "item_id": item.id}
        yield from _deltas(item, place)
        yield ResponseOutputItemDoneEvent(
            type="response.output_item.done", sequence_number=0, output_index=index, item=item
        )
    yield ResponseCompletedEvent(
        type="response.completed",
        sequence_number=0,
        response=_response(turn, list(_items(turn)), "completed"),
    )


def _opened(item):
    empty = {
        "reasoning": {"summary": [], "encrypted_content": "aW5jb21wbGV0ZQ"},
        "message": {"content": [], "status": "in_progress"},
        "function_call": {"arguments": "", "status": "in_progress"},
    }
    return item.model_copy(update=empty[item.type])


def _deltas(item, place):
    if item.type == "reasoning":
        part = {"type": "summary_text", "text": ""}
        yield ResponseReasoningSummaryPartAddedEvent(
            type="response.reasoning_summary_part.added", summary_index=0, part=part, **place
        )
        for piece in pieces(item.summary[0].text):
            yield ResponseReasoningSummaryTextDeltaEvent(
                type="response.reasoning_summary_text.delta", summary_index=0, delta=piece, **place
            )
    if item.type == "message":
        yield from _text_deltas(item.content[0].text, place)
    if item.type == "function_call":
        for piece in pieces(item.arguments):
            yield ResponseFunctionCallArgumentsDeltaEvent(
                type="response.function_call_arguments.delta", delta=piece, **place
            )
        yield ResponseFunctionCallArgumentsDoneEvent(
            type="response.function_call_arguments.done", arguments=item.arguments, name=item.name, **place
        )


def _text_deltas(text, place):
    place = {**place, "content_index": 0}
    yield ResponseContentPartAddedEvent(type="response.content_part.added", part=_text(""), **place)
    for piece in pieces(text):
        yield ResponseTextDeltaEvent(type="response.output_text.delta", delta=piece, logprobs=[], **place)
    yield ResponseTextDoneEvent(type="response.output_text.done", text=text, logprobs=[], **place)
    yield ResponseContentPartDoneEvent(type="response.content_part.done", part=_text(text), **place)


def history(body):
    """The answers in a request: each as a list of what it consisted of, nothing left out."""
    answers = [[]]
    for item in body["input"]:
        if item.get("role") == "user" or item.get("type") == "function_call_output":
            if answers[-1]:
                answers.append([])
        else:
            answers[-1].append(_read(item))
    return [answer for answer in answers if answer]


def _read(item):
    """An item without what only tells that it was stored at the vendor."""
    kind = item.get("type", "message")
    if kind == "message":
        content = item["content"]
        return content if isinstance(content, str) else "".join(part["text"] for part in content)
    if kind == "function_call":
        return (item["call_id"], item["name"], json.loads(item["arguments"]))
    return {key: value for key, value in item.items() if value is not None}


def expected_history(turns):
    """The same, as the server gave it."""
    return [[_read(item.model_dump(exclude_unset=True)) for item in _items(turn)] for turn in turns]


def results(body):
    """The answers of tools, by the id of the call, as text."""
    found = (item for item in body["input"] if item.get("type") == "function_call_output")
    return {item["call_id"]: json.dumps(item["output"], ensure_ascii=False) for item in found}


def pictures(body):
    """The pictures in a request, in base 64."""
    lists = (item["output"] for item in body["input"] if isinstance(item.get("output"), list))
    parts = (part for parts in lists for part in parts if part["type"] == "input_image")
    return [part["image_url"].partition(";base64,")[2] for part in parts]


def plain(body):
    """A body in the one of several spellings that everybody uses."""
    return body


def official(url, key, asked):
    """Lets the vendor's own client ask the same, and gives what it understood."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=30.0)
    body = dict(asked.body)
    if body.pop("stream"):
        with client.responses.stream(**body) as events:
            response = events.get_final_response()
    else:
        response = client.responses.create(**body, stream=False)
    return [_read(item.model_dump(exclude_unset=True)) for item in response.output]


def understood(turn):
    """What it should have understood."""
    return expected_history([turn])[0]
