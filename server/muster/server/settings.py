# SPDX-License-Identifier: Apache-2.0
"""What can be set, from flags, then the environment (MUSTER_…), then a TOML file, then the defaults below."""

import os
import sys
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Literal, NoReturn

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    CliSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from muster.core import Policy
from muster.core.model import MatchPolicy, OnTimeout
from muster.core.spec import Defaults, duration
from muster.core.standoff import GRACE

UNIX = "unix://"
CONFIG_FILE = "MUSTER_CONFIG"  # the environment variable that names the file; also --config

# pydantic-settings asks the class for its sources and passes it nothing, so `load` leaves the file's name here.
_file: ContextVar[str] = ContextVar("file", default="")


class Settings(BaseSettings):
    """muster-server decides which gangs of pods may start, for a muster-scheduler."""

    model_config = SettingsConfigDict(
        env_prefix="MUSTER_",
        frozen=True,
        extra="forbid",
        cli_prog_name="muster-server",
        cli_kebab_case=True,
        cli_avoid_json=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
    )

    config: Annotated[str, Field(description="TOML file with any of these settings")] = ""
    check: Annotated[bool, Field(description="ask the server at `listen` whether it is well, then exit 0 or 1")] = False
    listen: Annotated[str, Field(description="unix:///path, or host:port with the three tls settings")] = (
        "unix:///run/muster/private/server.sock"
    )
    tls_cert: Annotated[str, Field(description="PEM file: this server's certificate")] = ""
    tls_key: Annotated[str, Field(description="PEM file: its key")] = ""
    tls_client_ca: Annotated[str, Field(description="PEM file: who signs the certificates of clients")] = ""
    kubeconfig: Annotated[str, Field(description="how to reach the API server; empty: as a pod in the cluster")] = ""
    write: Annotated[bool, Field(description="write events and timeout marks to the API server; off: decide only")] = (
        True
    )
    waiting_time: Annotated[
        str, Field(description="how long a gang that does not say may wait at Permit, 1s to 720h")
    ] = "10m"
    on_timeout: Annotated[
        Literal["Fail", "Retry"], Field(description="what happens then, for a gang that does not say")
    ] = "Fail"
    match_policy: Annotated[
        Literal["once-satisfied", "only-waiting", "waiting-and-running"],
        Field(description="which members count, for a gang that does not say"),
    ] = "once-satisfied"
    standoff_grace: Annotated[
        float,
        Field(description="seconds after which one of several gangs that hold room each other need gives way", gt=0),
    ] = GRACE
    metrics_address: Annotated[str, Field(description="host:port for Prometheus; empty: none")] = "127.0.0.1:9095"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Field(description="how much is logged")] = "info"
    cpu: Annotated[
        int,
        Field(description="pin the process to this CPU, which halves its latency where it is free; -1: do not", ge=-1),
    ] = -1

    @field_validator("waiting_time")
    @classmethod
    def _is_duration(cls, text: str) -> str:
        if duration(text) is None:
            raise ValueError("must be a duration such as 90s, 10m or 1h30m, from 1s to 720h")
        return text

    @field_validator("listen")
    @classmethod
    def _is_address(cls, text: str) -> str:
        if text.startswith(UNIX):
            path = text.removeprefix(UNIX)
            if not path.startswith("/") or len(path.encode()) > 107:
                raise ValueError("a unix socket needs an absolute path of at most 107 bytes")
        elif not text.rpartition(":")[0] or not text.rpartition(":")[2].isdigit():
            raise ValueError("must be unix:///path or host:port")
        return text

    @field_validator("metrics_address")
    @classmethod
    def _is_host_and_port(cls, text: str) -> str:
        host, _, port = text.rpartition(":")
        if text and (not host or not port.isdigit() or int(port) > 65535):
            raise ValueError("must be host:port or empty")
        return text

    @model_validator(mode="after")
    def _tcp_needs_tls(self) -> "Settings":
        files = {"tls_cert": self.tls_cert, "tls_key": self.tls_key, "tls_client_ca": self.tls_client_ca}
        missing = [name for name, path in files.items() if not path]
        if not self.listen.startswith(UNIX) and missing:
            raise ValueError(f"listen is {self.listen!r}: a TCP address also needs {', '.join(missing)}")
        unreadable = [name for name, path in files.items() if path and not os.access(path, os.R_OK)]
        if unreadable:
            raise ValueError(f"{unreadable[0]} is {files[unreadable[0]]!r}: no such file, or not readable")
        return self

    def policy(self) -> Policy:
        wait = duration(self.waiting_time)
        assert wait is not None
        defaults = Defaults(wait, OnTimeout(self.on_timeout), MatchPolicy(self.match_policy))
        return Policy(defaults, self.standoff_grace)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = _file.get()
        sources: list[PydanticBaseSettingsSource] = [init_settings, env_settings]
        if file:
            sources.append(TomlConfigSettingsSource(settings_cls, Path(file)))
        return tuple(sources)


def load(arguments: list[str]) -> Settings:
    """The settings, or an exit with one line for each setting that is wrong."""
    file = _file_named(arguments)
    if file and not Path(file).is_file():
        _give_up([f"config is {file!r}: no such file"])
    _file.set(file)
    try:
        source = CliSettingsSource[Settings](Settings, cli_parse_args=arguments)
        return Settings(_cli_settings_source=source)  # type: ignore[call-arg]
    except ValidationError as error:
        _give_up([_line(problem["loc"], problem["msg"], problem.get("input")) for problem in error.errors()])
    except ValueError as error:  # a TOML file that is none
        _give_up([f"config is {file!r}: {error}"])


def _line(location: tuple[int | str, ...], message: str, value: object) -> str:
    text = message.removeprefix("Value error, ")
    return f"{location[0]} is {value!r}: {text}" if location else text


def _give_up(lines: list[str]) -> NoReturn:
    for line in lines:
        print(f"muster-server: {line}", file=sys.stderr)
    raise SystemExit(2)


def _file_named(arguments: list[str]) -> str:
    for index, argument in enumerate(arguments):
        if argument == "--config" and index + 1 < len(arguments):
            return arguments[index + 1]
        if argument.startswith("--config="):
            return argument.removeprefix("--config=")
    return os.environ.get(CONFIG_FILE, "")
