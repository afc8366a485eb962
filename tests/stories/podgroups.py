# SPDX-License-Identifier: Apache-2.0
"""PodGroups in stories, of both API groups that have a definition of ours."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lightkube.generic_resource import create_namespaced_resource
from lightkube.resources.core_v1 import Namespace
from lightkube.types import PatchType

from muster.core import spec
from muster.core.model import Source
from tests.builders import JOINS, annotated
from tests.stories.world import World

_RESOURCES = {
    source: create_namespaced_resource(source.value.partition(".")[2], "v1alpha1", "PodGroup", "podgroups")
    for source in (Source.SIGS, Source.X_K8S)
}


@dataclass
class PodGroups:
    """The PodGroups of a story's namespace."""

    world: World
    source: Source = Source.SIGS

    @property
    def _resource(self) -> Any:
        return _RESOURCES[self.source]

    def create(self, name: str, minimum: int, *, settings: dict[str, str | int] | None = None, **fields: Any) -> None:
        """`settings` are annotations by their short names, `fields` are further ones of the spec."""
        metadata = {"name": name, "namespace": self.world.namespace, "annotations": annotated(settings or {})}
        self.world.client.create(self._resource(metadata=metadata, spec={"minMember": minimum, **fields}))

    def change(self, name: str, **fields: Any) -> None:
        patch = {"spec": fields}
        self.world.client.patch(self._resource, name, patch, namespace=self.world.namespace, patch_type=PatchType.MERGE)

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.world.client.get(self._resource, name, namespace=self.world.namespace).to_dict()
        return found

    def delete(self, name: str) -> None:
        self.world.client.delete(self._resource, name, namespace=self.world.namespace)

    def pods(self, names: Iterable[str], group: str, annotations: dict[str, str] | None = None) -> None:
        """Pods that join it by the label of its kind."""
        for name in names:
            self.world.pod(name, annotations, labels={JOINS[self.source]: group})


def allow_groups(world: World) -> None:
    """As an administrator: gangs of this namespace may start together with those of others."""
    world.client.patch(Namespace, world.namespace, {"metadata": {"labels": {spec.CONSENT: spec.CONSENTS}}})
