# SPDX-License-Identifier: Apache-2.0
"""A local cluster as an object: the command line and the tests use this."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from localcluster import access, components, nodes
from localcluster.api import Api
from localcluster.children import end_leftovers
from localcluster.layout import BIN, REPO, ClusterError, Layout, write_private
from localcluster.nodes import NodeShape

# A child that died so often in a row is not going to make it.
_HOPELESS = 4
_POLL = 0.05
_REPORT_EVERY = 5.0

Progress = Callable[[str], None]


def _silent(_: str) -> None:
    pass


def _nodes_not_ready(api: Api) -> str | None:
    usable, total = nodes.ready(api)
    return None if usable == total else f"{usable} of {total} are"


class Cluster:
    """A cluster in a directory. Nothing runs before `start`; leaving a `with` block stops and removes it."""

    def __init__(
        self,
        dir: Path | str = REPO / ".muster",
        *,
        parts: Iterable[str] = components.COMPONENTS,
        extra_args: Mapping[str, Sequence[str]] | None = None,
        programs: Mapping[str, Sequence[str]] | None = None,
        binaries: Path = BIN,
        progress: Progress = _silent,
    ) -> None:
        self.layout = Layout(Path(dir).absolute())
        self.parts = components.in_order(parts)
        self._extra_args = extra_args or {}
        self._programs = programs or {}
        self._binaries = binaries
        self._progress = progress
        self._began = time.monotonic()
        self._daemon: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig

    def running(self) -> bool:
        return self.layout.supervised()

    def start(self, nodes: int | None = None, shape: NodeShape | None = None, timeout: float = 120) -> None:
        """Start the cluster, or adjust the nodes of a running one; return when it is ready.

        Without `nodes` a new cluster gets 4 and a running one keeps those it has.
        """
        self._began = time.monotonic()
        if self.running():
            self._say(f"already running in {self.layout.dir}")
            self._fit_nodes(nodes, shape, timeout)
            return
        self._launch()
        try:
            self._bring_up(4 if nodes is None else nodes, shape or NodeShape(), timeout)
        except BaseException:
            self._end_daemon()  # what cannot be used must not be left running; the logs stay
            raise

    def stop(self, purge: bool = True) -> None:
        """Stop every process; with `purge` the next start makes a new cluster. The logs stay."""
        self._end_daemon()
        if purge:
            for path in (self.layout.etcd, self.layout.pki, self.layout.run):
                shutil.rmtree(path, ignore_errors=True)
            self.layout.kubeconfig.unlink(missing_ok=True)

    def kubectl(self, *args: str, input: str | None = None) -> str:
        """Run kubectl as administrator and return what it prints."""
        return self.kubectl_as(self.kubeconfig, *args, input=input)

    def kubectl_as(self, kubeconfig: Path, *args: str, input: str | None = None) -> str:
        command = [str(self._binaries / "kubectl"), f"--kubeconfig={kubeconfig}", *args]
        try:
            done = subprocess.run(command, input=input, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise ClusterError(f"{command[0]} is missing; build it with `make build`") from None
        if done.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(args)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def create(self, path: str, objects: Iterable[Mapping[str, Any]]) -> None:
        """Create many objects fast, as administrator. `path` is that of the collection, such as /api/v1/nodes."""
        with Api(self.layout) as api:
            api.each("POST", ((path, item) for item in objects))

    def pid(self, name: str) -> int | None:
        """The process id of a part; None while it does not run."""
        return self.layout.pid(name)

    def kill(self, name: str, sig: signal.Signals = signal.SIGKILL) -> int:
        """Send a signal to a part and return the process id it went to."""
        pid = self.pid(name)
        if pid is None:
            raise ClusterError(f"{name} is not running")
        os.kill(pid, sig)
        return pid

    def wait_restart(self, name: str, old_pid: int, timeout: float = 30) -> int:
        """Wait until a part runs as another process and is ready; return its process id."""
        # Whoever waits for a restart has killed the part, perhaps many times: that does not make it hopeless.
        self._wait(f"a restart of {name}", timeout, lambda: self._restarted(name, old_pid), give_up=False)
        pid = self.pid(name)
        assert pid is not None
        return pid

    def log(self, name: str) -> str:
        return self.layout.log_file(name).read_text(errors="replace")

    def states(self) -> dict[str, dict[str, Any]]:
        """What the supervisor knows of each part; see ChildState."""
        try:
            states: dict[str, dict[str, Any]] = json.loads(self.layout.state.read_text())
        except FileNotFoundError:
            return {}
        return states

    def _launch(self) -> None:
        layout = self.layout
        self._reap()
        layout.prepare()
        # Left by a run that ended badly. Children start when these appear, so they must be new.
        for stale in (layout.kubeconfig, layout.state, *layout.run.glob("*.kubeconfig")):
            stale.unlink(missing_ok=True)
        if not layout.etcd.exists():
            for old in layout.logs.glob("*.log"):
                old.unlink()
        components.choose_ports(layout)
        made = components.children(layout, self._binaries, self.parts, self._extra_args, self._programs)
        write_private(layout.children, json.dumps([vars(child) for child in made], indent=1))
        with layout.log_file("supervisor").open("ab") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, "-m", "localcluster.supervisor", str(layout.dir)],
                cwd=REPO,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _bring_up(self, count: int, shape: NodeShape, timeout: float) -> None:
        self._wait_ready("controlplane", timeout)
        access.apply_manifests(self.kubectl)
        access.write_scheduler_config(self.layout)
        for name in components.ACCOUNTS:
            access.write_account_kubeconfig(self.layout, self.kubectl, name)
        self._say("accounts and roles applied")
        self._fit_nodes(count, shape, timeout)
        for name in self.parts[1:]:
            self._wait_ready(name, timeout)
        self._wait("all parts to stay up", timeout, self._unsteady)

    def _fit_nodes(self, count: int | None, shape: NodeShape | None, timeout: float) -> None:
        if count is None:
            return
        with Api(self.layout) as api:
            self._say(nodes.adjust(api, count, shape or NodeShape()))
            if "kwok" in self.parts:
                self._wait("nodes to be ready", timeout, lambda: _nodes_not_ready(api))

    def _unsteady(self) -> str | None:
        for name, state in self.states().items():
            # Ready is not enough: a part may serve for an instant and then fail.
            if state["pid"] is None or time.time() - state["started"] < (3 if state["failures"] else 1):
                return f"{name} {state['last_exit']}" if state["last_exit"] else name
        return None

    def _restarted(self, name: str, old_pid: int) -> str | None:
        if self.pid(name) in (None, old_pid):
            return "not started yet"
        return components.not_ready(self.layout, name)

    def _wait_ready(self, name: str, timeout: float) -> None:
        self._wait(name, timeout, lambda: components.not_ready(self.layout, name))
        self._say(f"{name} ready")

    def _wait(self, what: str, timeout: float, missing: Callable[[], str | None], *, give_up: bool = True) -> None:
        began = reported = asked = time.monotonic()
        while (reason := missing()) is not None:
            if give_up:
                self._check_alive()
            now = time.monotonic()
            if now - began > timeout:
                raise ClusterError(f"waited {timeout:g} s for {what} ({reason}); the logs are in {self.layout.logs}")
            if now - reported > _REPORT_EVERY:
                self._say(f"waiting for {what}: {reason}")
                reported = now
            # Asking for 1000 nodes is work, and must not slow down what is waited for.
            time.sleep(max(_POLL, 5 * (now - asked)))
            asked = time.monotonic()

    def _check_alive(self) -> None:
        """Do not wait for what will not come."""
        if self._daemon is not None and self._daemon.poll() is not None:
            raise ClusterError(f"the supervisor ended:\n{self.layout.log_tail('supervisor')}")
        for name, state in self.states().items():
            if state["failures"] >= _HOPELESS:
                raise ClusterError(
                    f"{name} keeps dying ({state['last_exit']}, {state['failures']} times); "
                    f"the end of {self.layout.log_file(name)}:\n{self.layout.log_tail(name)}"
                )

    def _end_daemon(self) -> None:
        pid = self.layout.pid("supervisor")
        if pid is not None and self.running():
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while self.running():
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the supervisor, pid {pid}, does not stop; see {self.layout.log_file('supervisor')}"
                )
            time.sleep(_POLL)
        self._reap()
        end_leftovers(self.layout)

    def _reap(self) -> None:
        """Collect a supervisor of ours that has ended."""
        if self._daemon is not None:
            self._daemon.wait()
            self._daemon = None

    def _say(self, text: str) -> None:
        self._progress(f"{time.monotonic() - self._began:6.1f}s  {text}")
