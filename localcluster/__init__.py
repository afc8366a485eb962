# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane with fake nodes on this machine, with Muster running on it."""

from localcluster.cluster import Cluster
from localcluster.layout import ClusterError, Layout
from localcluster.nodes import NodeShape

__all__ = ["Cluster", "ClusterError", "Layout", "NodeShape"]
