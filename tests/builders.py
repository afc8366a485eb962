# SPDX-License-Identifier: Apache-2.0
"""The one language in which tests make pods and PodGroups."""

from muster.core import spec
from muster.core.model import GangObject, Phase, Pod, PodUid, Source

# How a pod names its PodGroup, by the PodGroup's kind.
JOINS = {Source.SIGS: spec.POD_GROUP_LABELS[0], Source.X_K8S: spec.POD_GROUP_LABELS[1]}


def pod(
    name: str,
    gang: str = "",
    minimum: int | str | None = None,
    *,
    namespace: str = "a",
    uid: str = "",
    created: int = 0,
    joins: Source | None = None,
    **settings: str | int,
) -> Pod:
    """pod("p1", "train", 3): a member of gang a/train. Other settings by their short names: mode="NonStrict".
    pod("p1", "train", joins=Source.SIGS): one whose gang a PodGroup declares."""
    annotations: dict[str, str] = {}
    labels = {JOINS[joins]: gang} if joins in JOINS else {}
    if gang and joins is None:
        annotations[spec.NAME] = gang
    if minimum is not None:
        annotations[spec.MIN] = str(minimum)
    fields = {"priority": 0, "node": "", "gated": False, "deleting": False, "nominated": "", "waited": 0.0}
    given = {key: value for key, value in settings.items() if key in fields}
    standing = Phase[str(settings["standing"])] if "standing" in settings else Phase.PENDING
    annotations |= annotated({key: value for key, value in settings.items() if key not in {*fields, "standing"}})
    return Pod(
        uid=PodUid(uid or name),
        namespace=namespace,
        name=name,
        created_ns=created,
        annotations=annotations,
        labels=labels,
        scheduling_group=gang if joins is Source.NATIVE else "",
        standing=standing,
        **given,  # type: ignore[arg-type]
    )


def podgroup(
    name: str,
    minimum: int | None = None,
    *,
    namespace: str = "a",
    source: Source = Source.SIGS,
    uid: str = "",
    created: int = 0,
    timeout: int | None = None,
    resources: dict[str, int] | None = None,
    unreadable: dict[str, str] | None = None,
    **settings: str | int,
) -> GangObject:
    """podgroup("train", 3): declares gang a/train. Annotations by their short names, as for a pod."""
    return GangObject(
        source=source,
        namespace=namespace,
        name=name,
        uid=uid or f"{source.name}-{name}",
        created_ns=created,
        min=minimum,
        timeout=timeout,
        resources=resources or {},
        annotations=annotated(settings),
        unreadable=unreadable or {},
    )


def annotated(settings: dict[str, str | int]) -> dict[str, str]:
    """Gang annotations by their short names: mode, waiting_time, on_timeout."""
    prefixes = {"on_timeout": spec.MUSTER}
    return {prefixes.get(key, spec.KOORDINATOR) + key.replace("_", "-"): str(value) for key, value in settings.items()}
