# SPDX-License-Identifier: Apache-2.0
"""After the gang ran once: who counts, and what a failed bind does."""

import pytest
from lightkube import ApiError
from lightkube.codecs import from_dict
from lightkube.models.core_v1 import ObjectReference
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.admissionregistration_v1 import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from lightkube.resources.core_v1 import PodBinding
from msgspec import ValidationError

from tests.stories.world import World

pytestmark = pytest.mark.cluster


def test_only_waiting_asks_for_a_whole_minimum_again(world: World) -> None:
    world.node("a")
    world.gang(["p0", "p1"], "train", 2, match_policy="only-waiting")
    world.wait_bound(["p0", "p1"])

    world.gang(["p2"], "train", 2, match_policy="only-waiting")
    world.wait_told("p2", "NotEnoughMembers", "waiting for 1 more of 2 members")
    assert "p2" not in world.bound()
    world.gang(["p3"], "train", 2, match_policy="only-waiting")

    world.wait_bound(["p2", "p3"])


def test_waiting_and_running_counts_those_that_run(world: World) -> None:
    world.node("a")
    world.gang(["p0", "p1"], "train", 2, match_policy="waiting-and-running")
    world.wait_bound(["p0", "p1"])
    world.gang(["p2"], "train", 2, match_policy="waiting-and-running")
    world.wait_bound(["p2"])

    world.delete("p0", "p1", "p2")
    world.wait(lambda: not world.pods(), "all to be gone")
    world.gang(["p3"], "train", 2, match_policy="waiting-and-running")
    world.wait_told("p3", "NotEnoughMembers")
    assert not world.bound()


def test_a_failed_bind_after_the_quorum_concerns_that_pod_alone(world: World) -> None:
    """The API server refuses to bind p1, as an admission policy may: p0 runs, p1 is tried again by itself."""
    world.node("a")
    refuse_binding(world, "p1")
    world.gang(["p0", "p1"], "train", 2)
    world.wait_bound(["p0"])
    world.never(lambda: "p1" in world.bound(), "p1 was bound against the policy", 1)

    allow_binding(world)

    world.wait_bound(["p0", "p1"])


def refuse_binding(world: World, name: str) -> None:
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}]
    selector = {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}}
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": world.namespace},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules, "namespaceSelector": selector},
            "validations": [{"expression": f"request.name != '{name}'", "message": "not this one"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": world.namespace},
        "spec": {"policyName": world.namespace, "validationActions": ["Deny"]},
    }
    world.client.create(from_dict(policy))
    world.client.create(from_dict(binding))
    world.wait(lambda: _refused(world, name), "the policy to be in force")


def _refused(world: World, name: str) -> bool:
    """The policy takes a moment: try it with a pod of that name that no scheduler looks at."""
    world.pod(name, schedulerName="nobody")
    binding = PodBinding(
        metadata=ObjectMeta(name=name, namespace=world.namespace),
        target=ObjectReference(kind="Node", name=f"{world.namespace}-a"),
    )
    try:
        world.client.create(binding, name, namespace=world.namespace)
    except ApiError as error:
        return error.status.code in (403, 422)
    except ValidationError:
        return False  # the API server answers a binding that it made with a Status
    else:
        return False
    finally:
        world.delete(name)
        world.wait(lambda: name not in world.pods(), f"{name} to be gone")


def allow_binding(world: World) -> None:
    world.client.delete(ValidatingAdmissionPolicyBinding, world.namespace)
    world.client.delete(ValidatingAdmissionPolicy, world.namespace)
