# SPDX-License-Identifier: Apache-2.0
"""Where the files of a local cluster are."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
BIN = REPO / ".muster" / "bin"

# sun_path takes 104 bytes on some systems, with the final NUL.
MAX_SOCKET_PATH = 103


class ClusterError(Exception):
    """Something the user can act on; the message says what."""


@dataclass(frozen=True)
class Layout:
    """The files below the directory of one cluster."""

    dir: Path

    @property
    def kubeconfig(self) -> Path:
        return self.dir / "kubeconfig"

    @property
    def etcd(self) -> Path:
        return self.dir / "etcd"

    @property
    def pki(self) -> Path:
        return self.dir / "pki"

    @property
    def run(self) -> Path:
        return self.dir / "run"

    @property
    def logs(self) -> Path:
        return self.dir / "log"

    @property
    def server_socket(self) -> Path:
        return self.run / "server.sock"

    @property
    def apiserver_port(self) -> Path:
        return self.run / "apiserver.port"

    @property
    def scheduler_config(self) -> Path:
        return self.run / "scheduler-config.yaml"

    @property
    def scheduler_port(self) -> Path:
        """The port of the scheduler's health and metrics."""
        return self.run / "scheduler.port"

    @property
    def server_port(self) -> Path:
        """The port of the server's metrics."""
        return self.run / "server.port"

    @property
    def children(self) -> Path:
        """What the supervisor is to run."""
        return self.run / "children.json"

    @property
    def state(self) -> Path:
        """What the supervisor last saw."""
        return self.run / "state.json"

    def kubeconfig_of(self, name: str) -> Path:
        return self.run / f"{name}.kubeconfig"

    def pid_file(self, name: str) -> Path:
        return self.run / f"{name}.pid"

    def log_file(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def prepare(self) -> None:
        """Make the directories; run/ holds tokens and sockets and is for the owner only."""
        length = len(os.fsencode(self.server_socket))
        if length > MAX_SOCKET_PATH:
            raise ClusterError(
                f"--dir {self.dir} is too deep: the socket {self.server_socket} has a path of {length} "
                f"bytes, and a unix socket takes {MAX_SOCKET_PATH}. Choose a shorter directory."
            )
        self.logs.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(mode=0o700, exist_ok=True)
        self.run.chmod(0o700)

    def pid(self, name: str) -> int | None:
        try:
            return int(self.pid_file(name).read_text())
        except (FileNotFoundError, ValueError):
            return None

    def log_tail(self, name: str, lines: int = 15) -> str:
        try:
            text = self.log_file(name).read_text(errors="replace")
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:]) or "(empty log)"

    def lock_supervisor(self) -> int | None:
        """Take the lock a supervisor holds while it lives; None if one does.

        A lock goes with its process whatever ends it, and no other process can be mistaken for its holder.
        """
        fd = os.open(self.run / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def supervised(self) -> bool:
        """Whether a supervisor is alive."""
        if not self.run.is_dir():
            return False
        fd = self.lock_supervisor()
        if fd is None:
            return True
        os.close(fd)
        return False


def write_private(path: Path, text: str) -> None:
    """Write a file for the owner only, so that a reader sees all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text)
    temporary.replace(path)
