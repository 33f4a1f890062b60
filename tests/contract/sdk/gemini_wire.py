"""Google Gemini `generateContent`, by the types of the `google-genai` package."""

import base64
import json
from typing import Optional

from google import genai
from google.genai import types as g
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from . import recorder
from .closed import FREE, closed
from .story import pieces

NAME = "gemini"
MODELS = ("gemini-2.5-pro", "gemini-3-pro-preview")
OLDER_FIELDS = {}
REFUSED_FIELDS = {}
KEY_VARIABLE = "GEMINI_API_KEY"
HEADERS = ("x-goog-api-key", "content-type")
COUNTS_CACHE_WRITES = False
THINKS = True


class Request(BaseModel):
    """The body, made of the package's own types: it has none for the whole."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    contents: list[g.Content]
    system_instruction: Optional[g.Content] = None
    tools: Optional[list[g.Tool]] = None
    tool_config: Optional[g.ToolConfig] = None
    generation_config: Optional[g.GenerationConfig] = None
    safety_settings: Optional[list[g.SafetySetting]] = None
    cached_content: Optional[str] = None


def variables(url):
    """Where Sortie finds the server."""
    return {"GEMINI_BASE_URL": f"{url}/v1beta"}


def types(streaming):
    """The type of a request; it is the same in both ways of asking."""
    del streaming
    return closed(Request)


def _signature(turn):
    return base64.urlsafe_b64decode(turn.signature + "==") if turn.signature else None


def _parts(turn):
    if turn.thought:
        yield g.Part(text=turn.thought, thought=True)
    if turn.text:
        yield g.Part(text=turn.text)
    for at, call in enumerate(turn.calls):
        yield g.Part(
            function_call=g.FunctionCall(id=call.id, name=call.name, args=call.arguments),
            # Only the first call of an answer is signed.
            thought_signature=_signature(turn) if at == 0 else None,
        )


def _answer(turn, parts, stop=None):
    usage = g.GenerateContentResponseUsageMetadata(
        prompt_token_count=turn.usage.input,
        cached_content_token_count=turn.usage.cache_read,
        candidates_token_count=turn.usage.output - 3,
        thoughts_token_count=3,
        total_token_count=turn.usage.input + turn.usage.output,
    )
    answer = g.GenerateContentResponse(
        candidates=[g.Candidate(index=0, content=g.Content(role="model", parts=parts), finish_reason=stop)],
        model_version="gemini-contract",
        response_id=turn.name,
        usage_metadata=usage,
    )
    return answer.model_dump_json(by_alias=True, exclude_none=True)


def whole(turn):
    """The answer in one piece."""
    return recorder.whole(_answer(turn, list(_parts(turn)), g.FinishReason.STOP))


def stream(turn):
    """The answer as events."""
    parts = [small for part in _parts(turn) for small in _small(part)]
    last = len(parts) - 1
    stops = (g.FinishReason.STOP if at == last else None for at in range(len(parts)))
    return recorder.stream((None, _answer(turn, [part], stop)) for part, stop in zip(parts, stops))


def _small(part):
    if part.text is None:
        return [part]
    return [g.Part(text=piece, thought=part.thought) for piece in pieces(part.text)]


def history(body):
    """The answers in a request: each as a list of what it consisted of, nothing left out."""
    return [content["parts"] for content in body["contents"] if content["role"] == "model"]


def expected_history(turns):
    """The same, as the server gave it. Thoughts in words stay with whom they were shown to."""
    spoken = ([part for part in _parts(turn) if not part.thought] for turn in turns)
    return [[part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in parts] for parts in spoken]


def results(body):
    """The answers of tools, by the id of the call, as text."""
    parts = (part for content in body["contents"] for part in content["parts"])
    found = (part["functionResponse"] for part in parts if "functionResponse" in part)
    return {item["id"]: json.dumps(item["response"], ensure_ascii=False) for item in found}


def pictures(body):
    """The pictures in a request, in base 64, beside a result or inside it."""
    parts = [part for content in body["contents"] for part in content["parts"]]
    inside = [part for outer in parts for part in outer.get("functionResponse", {}).get("parts", [])]
    return [part["inlineData"]["data"] for part in parts + inside if "inlineData" in part]


def plain(body, key=""):
    """A body in the one of several spellings that everybody uses: the vendor's client writes some
    keys with underscores, bytes in the alphabet for URLs, and a role where there is only one."""
    if isinstance(body, list):
        return [plain(item) for item in body]
    if isinstance(body, dict) and key not in FREE:
        named = {_camel(name): value for name, value in body.items()}
        if key == "systemInstruction":
            named.pop("role", None)
        return {name: plain(value, name) for name, value in named.items()}
    if key in ("data", "thoughtSignature"):
        return body.replace("-", "+").replace("_", "/").rstrip("=")
    return body


def _camel(name):
    return to_camel(name) if "_" in name else name


def official(url, key, asked):
    """Lets the vendor's own client ask the same, and gives what it understood."""
    options = g.HttpOptions(base_url=url, api_version="v1beta", timeout=30_000)
    client = genai.Client(api_key=key, http_options=options)
    body = asked.body
    config = g.GenerateContentConfig(
        **body.get("generationConfig", {}),
        system_instruction=body.get("systemInstruction"),
        tools=body.get("tools"),
        automatic_function_calling={"disable": True},
    )
    model = asked.path.partition("/models/")[2].partition(":")[0]
    wish = {"model": model, "contents": body["contents"], "config": config}
    if "streamGenerateContent" in asked.path:
        answers = list(client.models.generate_content_stream(**wish))
    else:
        answers = [client.models.generate_content(**wish)]
    return _joined([part for answer in answers for part in answer.candidates[0].content.parts])


def _joined(parts):
    """Parts with neighbouring words put together again."""
    joined = []
    for part in parts:
        read = part.model_dump(mode="json", by_alias=True, exclude_none=True)
        if joined and set(read) == set(joined[-1]) and "text" in read:
            joined[-1]["text"] += read["text"]
        else:
            joined.append(read)
    return joined


def understood(turn):
    """What it should have understood."""
    return _joined(list(_parts(turn)))
