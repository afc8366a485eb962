# SPDX-License-Identifier: Apache-2.0
"""`make demo`: a real control plane on loopback, three gangs, what happens to each and why."""
