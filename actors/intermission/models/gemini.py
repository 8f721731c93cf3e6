"""`Gemini`: Google's models, at the Gemini API or on Vertex AI."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack
from urllib.parse import quote

from intermission.errors import ModelError, ModelErrorKind
from intermission.models.base import ModelRequest, provider
from intermission.models.gemini_answer import GeminiAnswer
from intermission.models.gemini_request import RESERVED_FIELDS, gemini_request
from intermission.models.http_model import CallSettings, HttpModel

__all__ = ["Gemini", "Vertex"]

_DEFAULT_BASE_URL = "https://generativelanguage.googleapis.com"
_MULTI_REGIONS = frozenset({"eu", "us"})
_MISSING_KEY = (
    f"{_DEFAULT_BASE_URL} needs a key: set GEMINI_API_KEY or GOOGLE_API_KEY, or give Gemini an "
    "api_key. For another server, set GEMINI_BASE_URL or base_url; for Vertex AI, give vertex."
)


@dataclass(frozen=True, slots=True)
class Vertex:
    """Where and as whom models are asked on Vertex AI.

    Attributes:
        project: The id of the Google Cloud project.
        location: Its region, such as `"europe-west4"`, or `"global"`.
        token: What stands behind `Bearer`: an access token, or a function that returns one. The function is
            called for each request, on the thread that asks, so that it can hand out a new token when the old
            one is near its end; several threads may call it at a time. Where the service refuses a token it
            is called once more, and if it has another the request is sent again.

    Raises:
        ValueError: The project or the location is empty.
    """

    project: str
    location: str
    token: str | Callable[[], str] = field(repr=False)

    def __post_init__(self) -> None:
        if not (self.project and self.location):
            raise ValueError("Vertex needs a project and a location, such as 'global'")


@provider("gemini")
class Gemini(HttpModel):
    """A `Model` at Google's `generateContent`; see `HttpModel`.

    Args:
        name: The model's name, as the service knows it: `"gemini-2.5-flash"`, or the path of a tuned one.
        base_url: The address before `/v1beta`; `None` for `GEMINI_BASE_URL` or else Google's own. With
            `vertex` the address before `/v1`; `None` for that of the location. A proxy out of the environment
            is not used for this machine itself.
        api_key: `None` for `GOOGLE_API_KEY`, or else `GEMINI_API_KEY`. A server other than Google's may do
            without.
        vertex: To ask on Vertex AI, which takes tokens and no key.
        settings: Time limits, retries and more; see `CallSettings`.

    Raises:
        ValueError: An option names a field that the runtime fills, a limit is not positive, or there are both
            a key and `vertex`.
    """

    _reserved = RESERVED_FIELDS

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        vertex: Vertex | None = None,
        **settings: Unpack[CallSettings],
    ) -> None:
        self._vertex = vertex
        missing = None
        if vertex is not None:
            if api_key:
                raise ValueError("give Gemini an api_key or vertex, not both: Vertex AI takes tokens")
            url, key = base_url or _vertex_url(vertex.location), ""
        else:
            url = (base_url or os.environ.get("GEMINI_BASE_URL") or _DEFAULT_BASE_URL).rstrip("/")
            # In the order in which Google's own libraries look.
            key = api_key or os.environ.get("GOOGLE_API_KEY") or os.environ.get("GEMINI_API_KEY") or ""
            missing = _MISSING_KEY if not key and url == _DEFAULT_BASE_URL else None
        headers = {"x-goog-api-key": key} if key else {}
        super().__init__(name, url, secrets=(key,), headers=headers, missing_key=missing, **settings)
        self._model_path = _model_path(name, vertex)

    def _headers(self) -> Mapping[str, str]:
        if self._vertex is None:
            return {}
        token = self._vertex.token
        if callable(token):
            token = self._asked(token)
        self._failures.hide_also(token)
        return {"Authorization": f"Bearer {token}"}

    def _asked(self, source: Callable[[], object]) -> str:
        try:
            token = source()
        except ModelError:
            raise
        except Exception as error:
            raise self._failures.failed(
                ModelErrorKind.AUTHENTICATION, "there is no token for Vertex AI", repr(error)
            ) from error
        if not (isinstance(token, str) and token):
            what = f"there is no token for Vertex AI: its function returned {type(token).__name__}"
            raise self._failures.failed(ModelErrorKind.AUTHENTICATION, what)
        return token

    def _path(self, *, streaming: bool) -> str:
        return f"{self._model_path}:{'streamGenerateContent?alt=sse' if streaming else 'generateContent'}"

    def _payload(self, request: ModelRequest) -> Mapping[str, Any]:
        return gemini_request(self._name, request, self._options, on_vertex=self._vertex is not None)

    def _answer(self, *, streaming: bool) -> GeminiAnswer:
        return GeminiAnswer(self._failures)


def _vertex_url(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in _MULTI_REGIONS:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def _model_path(name: str, vertex: Vertex | None) -> str:
    """Return what follows the base address up to a model. A name that is a path says itself where it is."""
    if vertex is None:
        path = name if "/" in name else f"models/{name}"
        return f"/v1beta/{quote(path)}"
    place = f"projects/{vertex.project}/locations/{vertex.location}"
    if name.startswith("projects/"):
        path = name
    else:
        path = f"{place}/{name if '/' in name else f'publishers/google/models/{name}'}"
    return f"/v1/{quote(path)}"
