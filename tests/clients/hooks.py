"""What the property tester may not know: the service's options, what a client was told before, and the forms of others.

Names that the option `session_ids` decides about become plain ones, cursors and turns are only what a reply had, messages and
definitions have a form of which /openapi.json says no more than where it is described, and whole numbers are written as such.
"""

import hashlib
import itertools
import json
import re

import schemathesis

PLAIN = re.compile(r"[A-Za-z0-9_-]{1,128}")
PREFIX = "/keepline/v1"
NUMBERS = itertools.count(1)


def plain(name):
    if not isinstance(name, str) or PLAIN.fullmatch(name):
        return name
    return "s" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def whole(value):
    """JSON Schema counts 1.0 among the whole numbers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    if isinstance(value, list):
        return [whole(member) for member in value]
    if isinstance(value, dict):
        return {name: whole(member) for name, member in value.items()}
    return value


def messages(body):
    listed = body if isinstance(body, list) else [body]
    return [{"role": "user", "content": json.dumps(message)[:100]} for message in listed]


def definition(kind, name):
    if kind == "rule-engines":
        return {"id": name, "name": "Rules", "rules": []}
    step = {"type": "kv_get", "instance": "house", "namespace": "style", "keys": ["indent"]}
    return {"id": name, "label": "Rules", "inputs_scope": ["project"], "retrieval": {"pipeline": [step]}}


@schemathesis.hook
def map_case(context, case):
    method, path = case.method.upper(), case.operation.path
    if not path.startswith(PREFIX):
        return case
    path = path[len(PREFIX):]
    names = case.path_parameters or {}
    if "id" in names:
        names["id"] = plain(names["id"])
    if case.headers and "if-match" in case.headers:
        # One condition at a time, a definition's tag is its revision, and a branch is not removed under one.
        case.headers.pop("if-none-match", None)
        if path.startswith("/definitions/"):
            case.headers["if-match"] = '"1"'
        if case.query:
            case.query.pop("branch", None)
    if case.query:
        case.query.pop("after", None)
        if "session" in case.query:
            case.query["session"] = plain(case.query["session"])
    if path == "/sessions/{id}/messages" and isinstance(case.body, (list, dict)):
        case.body = messages(case.body)
    elif path == "/definitions/{kind}/{definition}" and method == "PUT":
        case.body, case.media_type = definition(names["kind"], names["definition"]), "application/json"
    elif isinstance(case.body, dict):
        case.body = whole(case.body)
        for name in ("id", "session"):
            if name in case.body and not path.startswith("/definitions/"):
                case.body[name] = plain(case.body[name])
        if path == "/sessions" and not case.body.get("id"):
            # One that the service makes is another one in each run.
            case.body["id"] = f"made-{next(NUMBERS)}"
        turn = case.body.get("turn")
        if isinstance(turn, str) and not turn.startswith("{"):
            del case.body["turn"]
    return case
