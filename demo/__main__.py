# SPDX-License-Identifier: Apache-2.0
"""Three gangs on two nodes of four CPUs: one fits, one is short of a member, one finds no room."""

import time

from demo.gangs import pods
from demo.screen import Screen
from localcluster import Cluster, ClusterError, NodeShape
from localcluster.layout import REPO
from muster.v1.view_pb2 import Gang


def main() -> None:
    # A directory of its own: a cluster that `make up` left running is not disturbed.
    cluster = Cluster(REPO / ".muster" / "demo", progress=print)
    print("Starting a control plane, fake nodes, muster-server and muster-scheduler.")
    try:
        cluster.stop()
        cluster.start(nodes=2, shape=NodeShape(cpu="4"))
        tell(cluster)
    except ClusterError as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        print("\ninterrupted")
    finally:
        cluster.stop()


def tell(cluster: Cluster) -> None:
    screen = Screen(f"unix://{cluster.layout.server_socket}")

    screen.say("Three gangs. `fits` wants 3 pods of 1 CPU, `short` wants 3 and has 2, `big` wants 3 pods of 3 CPUs.")
    for gang, count, cpu in (("fits", 3, 1), ("short", 2, 1), ("big", 3, 3)):
        screen.command(f"kubectl apply -f {gang}.yaml")
        cluster.kubectl("apply", "-f", "-", input=pods(gang, range(count), 3, cpu))
    screen.watch(lambda gangs: phase(gangs, "fits") == "Satisfied" and reason(gangs, "big") == "NoRoom")

    screen.say("Not one pod of `short` and `big` holds any room. What their pods say:")
    for name in ("short-0", "big-0"):
        screen.command(f"kubectl describe pod {name} | grep muster-server")
        print(wait_for_event(cluster, name))

    screen.say("The missing member of `short` comes.")
    screen.command("kubectl apply -f short-2.yaml")
    cluster.kubectl("apply", "-f", "-", input=pods("short", range(2, 3), 3, 1))
    screen.watch(lambda gangs: phase(gangs, "short") == "Satisfied")

    screen.say("Three more nodes come, and with them room for `big`.")
    screen.command("make up NODES=5")
    cluster.start(nodes=5, shape=NodeShape(cpu="4"))
    screen.watch(lambda gangs: all(phase(gangs, name) == "Satisfied" for name in ("fits", "short", "big")))

    screen.say("All three run:")
    cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=30s")
    screen.command("kubectl get pods -o wide")
    columns = "NAME:.metadata.name,STATUS:.status.phase,NODE:.spec.nodeName"
    print(cluster.kubectl("get", "pods", "-o", f"custom-columns={columns}"))
    print("That was the demo. `make up` starts such a cluster and leaves it running for you.")


def phase(gangs: dict[str, Gang], name: str) -> str:
    return gangs[name].phase if name in gangs else ""


def reason(gangs: dict[str, Gang], name: str) -> str:
    return gangs[name].reason if name in gangs else ""


def wait_for_event(cluster: Cluster, pod: str) -> str:
    """What muster-server wrote on the pod; it does so within a second."""
    for _ in range(100):
        described = cluster.kubectl("describe", "pod", pod)
        lines = [line for line in described.splitlines() if "muster-server" in line]
        if lines:
            return "\n".join(lines)
        time.sleep(0.1)
    raise ClusterError(f"nothing was written on pod {pod} in ten seconds")


main()
