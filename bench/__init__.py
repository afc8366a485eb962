# SPDX-License-Identifier: Apache-2.0
"""How fast Muster is, beside a scheduler without gangs and one that knows gangs in its own process.

    .venv/bin/python -m bench --short

What is compared, on one control plane, with the same nodes and pods:

    stock          kube-scheduler of the release Muster is built from; its pods are in no gang
    coscheduling   kube-scheduler with the plugin of sigs.k8s.io/scheduler-plugins, of the older release it supports
    muster         muster-scheduler and muster-server; gangs by annotations
    muster-plain   the same two processes; pods in no gang, which must cost no call

How it is kept fair:

- One contender runs at a time and is the only client of the cluster besides the driver. Each is started, warmed up with
  a few pods, measured and stopped again, so none inherits a heap or a cache. All use one service account and thus one
  standing with the API server, the same client limits, and default settings for the rest.
- Contenders take turns within a repeat, in an order that rotates from repeat to repeat. Ratios are taken within a
  repeat and the median over the repeats is shown: other load on the machine then disturbs both sides alike.
- A sample waits for a calm machine, and is taken once more if others used much of it (--patience). What share they used
  is kept with each sample, and the processor time per pod stands in the table beside the speed, because it is disturbed
  far less. Do not trust a single repeat on a machine that does other work.
- There are no kubelets: they, or something that plays them, would write a status for every bound pod and a lease for
  every node, and on a small machine that would be most of what is measured. Nodes therefore carry the taint
  "unreachable", and all pods tolerate it.
- PodGroups, which only coscheduling needs, are created before the clock starts.
- The pods come from a small Go program (bench/driver) that says there why it is one.

Two numbers for each shape, because they answer different questions:

- stream: pods are created as fast as the API server takes them, while the scheduler runs. The clock runs from the
  first create to the last bind. This is what a user sees, but on few cores creating the pods is a good part of it.
- drain: the scheduler is stopped (SIGSTOP), the pods are created, the scheduler goes on (SIGCONT). The clock runs from
  there to the last bind. Here the scheduler and its binds are all there is, so differences show.

A gang's time runs from the moment its last create is sent (drain: from the resume) until its last bind is seen by a
watch. The processor time of each process is read from /proc before and after.
"""
