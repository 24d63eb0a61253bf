"""The contract of an HTTP application in OpenAPI 3.1, made from the types that its handlers decode and encode."""

from relay.http.openapi.document import document

__all__ = ["document"]
