# SPDX-License-Identifier: Apache-2.0
"""The control plane the stories run on.

A local cluster is started for them, unless MUSTER_TEST_KUBECONFIG names another one that runs Muster and kwok. Stories
that kill processes need the local one.
"""

import os
import re
import tempfile
import uuid
from collections.abc import Iterator

import pytest
from lightkube import Client, KubeConfig

from localcluster import Cluster
from tests.stories.world import World, new_world

ELSEWHERE = "MUSTER_TEST_KUBECONFIG"
# The PodGroups of Kubernetes itself are a beta that is off by default.
NATIVE_PODGROUPS = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The local cluster, with processes to kill."""
    if ELSEWHERE in os.environ:
        pytest.skip(f"kills processes of the local cluster, and {ELSEWHERE} names another one")
    # Not pytest's own directory: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="muster-") as directory:
        cluster = Cluster(directory, progress=print, extra_args={"controlplane": NATIVE_PODGROUPS})
        cluster.start(nodes=0)
        yield cluster
        cluster.stop()


@pytest.fixture(scope="session")
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    path = os.environ.get(ELSEWHERE) or str(request.getfixturevalue("cluster").kubeconfig)
    made = Client(config=KubeConfig.from_file(path), field_manager="muster-tests")
    yield made
    made.close()


@pytest.fixture
def world(client: Client, request: pytest.FixtureRequest) -> Iterator[World]:
    """A namespace and nodes for one story."""
    short = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:24].strip("-")
    with new_world(client, f"{short}-{uuid.uuid4().hex[:5]}") as world:
        yield world
