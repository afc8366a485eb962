# SPDX-License-Identifier: Apache-2.0
"""The two requests to the API server and what its answers mean. Retries and limits are the caller's."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

import httpx2
from lightkube import ApiError, AsyncClient, KubeConfig
from lightkube.models.core_v1 import ObjectReference
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod
from lightkube.resources.events_v1 import Event
from lightkube.types import PatchType

from muster.core.reasons import Reason
from muster.core.spec import TIMEOUT
from muster.writer.rules import REPEAT
from muster.writer.wire import Mark, Tell, cut

CONTROLLER = "muster-server"
WARNINGS = frozenset({Reason.INVALID_GANG, Reason.TIMED_OUT, Reason.NO_ROOM, Reason.SETTINGS_DIFFER})
_WARNINGS = frozenset(reason.value for reason in WARNINGS)
_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


class Outcome(Enum):
    DONE = "done"
    GONE = "gone"  # there is no such pod any more
    AGAIN = "again"  # may work later
    NEVER = "never"  # the server will not take this one


@dataclass(frozen=True, slots=True)
class Answer:
    outcome: Outcome
    detail: str = ""
    after: float = 0.0  # do not ask again sooner


class Api:
    """A client with the rights to create events and to patch pods. It needs no others."""

    def __init__(self, kubeconfig: str, instance: str) -> None:
        config = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_service_account()
        self._client = AsyncClient(config=config, timeout=httpx2.Timeout(10.0), field_manager=CONTROLLER)
        self._instance = instance

    async def close(self) -> None:
        await self._client.close()

    async def tell(self, tell: Tell, at: datetime) -> Answer:
        """Write one event. The same one again, also from another process, is taken as done."""
        if not (_NAME.fullmatch(tell.name) and _NAME.fullmatch(tell.namespace)):
            return Answer(Outcome.NEVER, "not a name of an object")
        try:
            await self._client.create(event(tell, at, self._instance))
        except (httpx2.HTTPError, OSError, KeyError) as error:
            return _read(error, {409: Outcome.DONE}, otherwise=Outcome.NEVER)
        return Answer(Outcome.DONE)

    async def mark(self, mark: Mark) -> Answer:
        """Write the annotation on exactly this pod: with the uid in it, the patch does not fit another one."""
        if not (_NAME.fullmatch(mark.name) and _NAME.fullmatch(mark.namespace)):
            return Answer(Outcome.GONE, "not a name of a pod")
        patch = {"metadata": {"uid": mark.uid, "annotations": {TIMEOUT: "true"}}}
        try:
            await self._client.patch(Pod, mark.name, patch, namespace=mark.namespace, patch_type=PatchType.MERGE)
        except (httpx2.HTTPError, OSError, KeyError) as error:
            if _is_another_pod(error):
                return Answer(Outcome.GONE, "another pod has its name")
            return _read(error, {404: Outcome.GONE}, otherwise=Outcome.AGAIN)
        return Answer(Outcome.DONE)


def event(tell: Tell, at: datetime, instance: str) -> Event:
    """The event as `kubectl describe` shows it.

    Its name follows from what it says and the ten minutes it falls into, so that a writer that was restarted, or a
    create whose answer was lost, does not say it twice.
    """
    said = "\0".join((tell.uid, tell.reason, tell.sentence, str(int(at.timestamp() // REPEAT))))
    digest = hashlib.blake2b(said.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return Event(
        metadata=ObjectMeta(name=f"{tell.name[:230].rstrip('.-')}.{digest}", namespace=tell.namespace),
        # Without a fraction the API server would not parse it.
        eventTime=at.astimezone(UTC).replace(microsecond=max(1, at.microsecond)),
        regarding=ObjectReference(
            apiVersion=tell.api_version, kind=tell.kind, namespace=tell.namespace, name=tell.name, uid=tell.uid
        ),
        type="Warning" if tell.reason in _WARNINGS else "Normal",
        reason=tell.reason,
        note=cut(tell.sentence),
        action="Scheduling",
        reportingController=CONTROLLER,
        reportingInstance=instance[:128],
    )


def _read(error: Exception, known: dict[int, Outcome], otherwise: Outcome) -> Answer:
    """What to do about a failed request."""
    if not isinstance(error, httpx2.HTTPStatusError):
        return Answer(Outcome.AGAIN, f"{type(error).__name__}: {error}")
    code, detail = error.response.status_code, f"{error.response.status_code}: {error}"
    # Only an answer of the API server itself is believed: a proxy's page with a 404 says nothing about a pod.
    if code in known and isinstance(error, ApiError):
        return Answer(known[code], detail)
    if code in (401, 408, 429) or code >= 500:
        return Answer(Outcome.AGAIN, detail, _retry_after(error.response))
    return Answer(otherwise, detail)


def _is_another_pod(error: Exception) -> bool:
    """API servers call a changed uid an invalid field; one that checks it as a precondition calls it a conflict.

    A plain conflict is neither: others wrote to the pod at the same time.
    """
    if not isinstance(error, ApiError):
        return False
    status = error.status
    if status.code == 409:
        return "uid" in (status.message or "").lower()
    causes = (status.details.causes if status.details else None) or []
    return status.code == 422 and any(cause.field == "metadata.uid" for cause in causes)


def _retry_after(response: httpx2.Response) -> float:
    try:
        return min(30.0, max(0.0, float(response.headers.get("Retry-After", "0"))))
    except ValueError:  # a date: rare, and our own backoff will do
        return 0.0
