"""The OpenAPI document of what the gateway serves itself and what it passes on."""

from __future__ import annotations

import functools
from typing import Any

from starlette.responses import JSONResponse, Response

from kvant import __version__

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "integer"},
            },
        }
    },
}
_COMMON: dict[str, Any] = {
    "model": {"type": "string"},
    "max_tokens": {"type": "integer", "minimum": 1},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "n": {"type": "integer", "minimum": 1, "maximum": 128},
    "stream": {"type": "boolean"},
}
_MESSAGE = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {
        "role": {"type": "string", "enum": ["system", "user", "assistant"]},
        "content": {"type": "string"},
    },
}


@functools.cache
def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    chat = {**_COMMON, "messages": {"type": "array", "minItems": 1, "items": _MESSAGE}}
    text = {**_COMMON, "prompt": {"type": "string"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kvant gateway", "version": __version__},
        "paths": {
            "/v1/chat/completions": {"post": _operation("An answer to messages", chat, ["messages"])},
            "/v1/completions": {"post": _operation("The rest of a text", text, ["prompt"])},
            "/v1/models": {"get": {"summary": "The models", "responses": _responses("application/json")}},
            "/tokenize": {
                "post": _operation("The tokens of a text", {"prompt": {"type": "string"}}, ["prompt"])
            },
            "/health": {
                "get": {"summary": "The process lives", "responses": {"200": {"description": "alive"}}}
            },
            "/ready": {
                "get": {
                    "summary": "Calls are taken",
                    "responses": {"200": {"description": "ready"}, "503": {"description": "why not"}},
                }
            },
            "/metrics": {"get": {"summary": "Prometheus series", "responses": _responses("text/plain")}},
        },
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def response() -> Response:
    return JSONResponse(document())


def _operation(summary: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "required": ["model", *required], "properties": properties}
    schema["required"] = [name for name in ["model", *required] if name in properties]
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": _responses("application/json", "text/event-stream"),
    }


def _responses(*kinds: str) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "200": {"description": "the answer", "content": {kind: {} for kind in kinds}},
        "default": {"description": "OpenAI's error envelope", "content": error},
    }
