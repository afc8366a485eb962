# SPDX-License-Identifier: Apache-2.0
"""What processes use is read from /proc."""

import os
import subprocess
import sys
import time

from bench import proc


def test_own_use_grows_with_work() -> None:
    before = proc.cpu_seconds(os.getpid())
    began = time.process_time()
    while time.process_time() - began < 0.1:
        pass
    assert 0.05 < proc.cpu_seconds(os.getpid()) - before < 1.0
    assert proc.busy_seconds() > 0
    assert proc.rss_bytes(os.getpid()) > 10**6


def test_a_process_that_is_gone_used_nothing() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    assert proc.cpu_seconds(child.pid) == 0
    assert proc.rss_bytes(child.pid) == 0


def test_children_are_found() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in proc.children(os.getpid())
    finally:
        child.communicate(b"\n")


def test_machine_facts_tell_no_names() -> None:
    facts = proc.machine()
    assert facts["cores"] == os.cpu_count()
    assert not any(os.uname().nodename in str(value) for value in facts.values())
