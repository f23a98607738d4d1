"""What the official SDKs make of the recorded provider bytes, as one hash an interaction.

    python3 -m venv venv && venv/bin/pip install openai==3.54.0 anthropic==2.12.0 pyyaml blake3
    venv/bin/python harness/tests/it/cassette_expected.py ../shared/data/cassettes > harness/tests/it/cassette_expected.tsv

Every 2xx interaction of the Chat Completions and Messages interfaces is served to the real SDK through an
in-memory transport; streams are accumulated by the SDK's own helper. The hash is BLAKE3 of the projection

    text, then for each call RS name US canonical-arguments, then GS finish GS input-tokens GS output-tokens

(`-` where unknown). `cassette.rs` builds the same text from what our wires decode. Columns: key (file#position,
both within the folder), wire, `stream` or `whole`, `bytes` or `parsed` (whether the file kept the body's bytes), number of
tool calls, hash; `error` in place of the hash where the SDK raises or finds no choice. SHOW=part-of-a-key prints
projections.
"""

import base64
import gzip
import json
import os
import sys
import types
import unicodedata

import anthropic
import blake3
import httpx2
import openai
import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def wire_of(url):
    path = url.split("#")[0].split("?")[0]
    if path.endswith("/chat/completions"):
        return "chat"
    if path.endswith("/messages") and "/threads/" not in path:
        return "messages"
    return None


def interactions(root):
    for folder, _, files in os.walk(root):
        for name in files:
            if not name.endswith(".yaml"):
                continue
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                recorded = yaml.load(file, Loader=LOADER).get("interactions") or []
            for position, one in enumerate(recorded):
                if "request" not in one:
                    continue
                url = one["request"].get("uri") or one["request"].get("url")
                status = one["response"]["status"]
                code = status.get("code") if isinstance(status, dict) else one["response"]["code"]
                wire = wire_of(url)
                if wire and 200 <= int(code) < 300:
                    yield f"{os.path.relpath(path, root)}#{position}", wire, url, one["response"]


def body_of(response):
    """The bytes of the body, and whether the file kept them."""
    if response.get("body") is None:
        return json.dumps(response["parsed_body"], ensure_ascii=False).encode(), False
    body = response["body"]
    body = body["string"] if isinstance(body, dict) else body
    if isinstance(body, str):
        body = body.encode()
    if body[:2] == b"\x1f\x8b":
        body = gzip.decompress(body)
    return body, True


def is_stream(body):
    return body.lstrip().startswith((b"data:", b"event:", b":"))


def canonical(value):
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [canonical(one) for one in value]
    if isinstance(value, dict):
        return {canonical(key): canonical(one) for key, one in value.items()}
    return value


def arguments_of(value):
    if isinstance(value, str):
        text = value.strip() or "{}"
        try:
            value = json.loads(text)
        except ValueError:
            return text
    return json.dumps(canonical(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def text_of(content):
    if isinstance(content, str):
        return content
    read = lambda block, name: block.get(name) if isinstance(block, dict) else getattr(block, name, None)
    return "".join(read(one, "text") or "" for one in content or [] if read(one, "type") == "text")


def projection(text, calls, finish, tokens_in, tokens_out):
    said = text + "".join(f"\x1e{name}\x1f{arguments_of(arguments)}" for name, arguments in calls)
    ends = [finish, tokens_in, tokens_out]
    return said + "".join("\x1d" + ("-" if one is None else str(one)) for one in ends)


def client_of(body, streamed):
    kind = "text/event-stream" if streamed else "application/json"
    answer = lambda request: httpx2.Response(200, headers={"content-type": kind}, content=body)
    return httpx2.Client(transport=httpx2.MockTransport(answer))


def chat(body, streamed):
    client = openai.OpenAI(
        api_key="none", base_url="http://none/v1", max_retries=0, http_client=client_of(body, streamed)
    )
    ask = {"model": "none", "messages": [{"role": "user", "content": "none"}]}
    if not streamed:
        answer = client.chat.completions.create(**ask)
        return chat_said(answer.choices[0], answer.usage)
    try:
        told = None
        with client.chat.completions.stream(**ask) as stream:
            for event in stream:
                told = usage_told(event) or told
            answer = stream.get_final_completion()
        # The helper forgets usage when a later chunk has none, and Groq's member `x_groq` altogether.
        return chat_said(answer.choices[0], answer.usage or told)
    except openai.LengthFinishReasonError as cut:
        return chat_said(cut.completion.choices[0], cut.completion.usage)
    except (TypeError, RuntimeError):  # a list without indices, which the helper does not join
        return joined(client.chat.completions.create(stream=True, **ask))


def usage_told(event):
    if event.type != "chunk":
        return None
    groq = (event.chunk.model_extra or {}).get("x_groq") or {}
    return event.chunk.usage or (types.SimpleNamespace(**groq["usage"]) if groq.get("usage") else None)


def chat_said(choice, usage):
    message = choice.message
    calls = [(one.function.name, one.function.arguments) for one in message.tool_calls or []] if message else []
    text = text_of(message.content) + (message.refusal or "") if message else ""
    tokens = (usage.prompt_tokens, usage.completion_tokens) if usage else (None, None)
    return text, calls, choice.finish_reason, *tokens


def joined(chunks):
    """The SDK's chunks, joined here; every call of these streams comes whole."""
    text, calls, finish, tokens = "", [], None, (None, None)
    for chunk in chunks:
        if chunk.usage:
            tokens = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
        for choice in chunk.choices:
            text += text_of(choice.delta.content)
            calls += [(one.function.name, one.function.arguments) for one in choice.delta.tool_calls or []]
            finish = choice.finish_reason or finish
    return text, calls, finish, *tokens


def messages(body, streamed, beta):
    client = anthropic.Anthropic(api_key="none", base_url="http://none", http_client=client_of(body, streamed))
    api = client.beta.messages if beta else client.messages
    ask = {"model": "none", "max_tokens": 1, "messages": [{"role": "user", "content": "none"}]}
    if streamed:
        with api.stream(**ask) as stream:
            answer = stream.get_final_message()
    else:
        answer = api.create(**ask)
    text = "".join(block.text for block in answer.content if block.type == "text")
    calls = [(block.name, block.input) for block in answer.content if block.type == "tool_use"]
    usage = answer.usage
    read = usage.input_tokens
    if read is not None:
        read += (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return text, calls, answer.stop_reason, read, usage.output_tokens


def main(root):
    rows = []
    for key, wire, url, response in interactions(root):
        body, has_bytes = body_of(response)
        streamed = is_stream(body)
        form = ["stream" if streamed else "whole", "bytes" if has_bytes else "parsed"]
        try:
            said = chat(body, streamed) if wire == "chat" else messages(body, streamed, "beta=true" in url)
        except (openai.APIError, TypeError) as error:
            # An error inside an answer of status 200, or no choices at all.
            print(f"{key}\t{error}"[:300], file=sys.stderr)
            rows.append("\t".join([key, wire, *form, "0", "error"]))
            continue
        digest = blake3.blake3(projection(*said).encode()).hexdigest()
        rows.append("\t".join([key, wire, *form, str(len(said[1])), digest]))
        if os.environ.get("SHOW") and os.environ["SHOW"] in key:
            print(key, repr(projection(*said)), file=sys.stderr)
    print("\n".join(sorted(rows)))


main(sys.argv[1])
