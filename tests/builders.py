# SPDX-License-Identifier: Apache-2.0
"""The one language in which tests make pods."""

from muster.core import spec
from muster.core.model import Phase, Pod, PodUid


def pod(
    name: str,
    gang: str = "",
    minimum: int | str | None = None,
    *,
    namespace: str = "a",
    uid: str = "",
    created: int = 0,
    **settings: str | int,
) -> Pod:
    """pod("p1", "train", 3): a member of gang a/train. Other settings by their short names: mode="NonStrict"."""
    annotations: dict[str, str] = {}
    if gang:
        annotations[spec.NAME] = gang
    if minimum is not None:
        annotations[spec.MIN] = str(minimum)
    fields = {"priority": 0, "node": "", "gated": False, "deleting": False, "nominated": "", "waited": 0.0}
    given = {key: value for key, value in settings.items() if key in fields}
    standing = Phase[str(settings["standing"])] if "standing" in settings else Phase.PENDING
    for key, value in settings.items():
        if key not in fields and key != "standing":
            prefix = spec.MUSTER if key == "on_timeout" else spec.KOORDINATOR
            annotations[prefix + key.replace("_", "-")] = str(value)
    return Pod(
        uid=PodUid(uid or name),
        namespace=namespace,
        name=name,
        created_ns=created,
        annotations=annotations,
        standing=standing,
        **given,  # type: ignore[arg-type]
    )
