# SPDX-License-Identifier: Apache-2.0
"""muster-server: carries frames to the core and decisions back. No rule lives here.

main.py       entry: settings, logging, serve until SIGTERM
settings.py   flags, environment, file; validated once
serve.py      sockets, TLS, health, drain
session.py    the session stream: decode, decide, encode, log, count
engine.py     owns the core: the clock, the ticks, what the writer is told
viewer.py     the read-only view
codec.py      protobuf <-> core; the only module that knows both
logs.py       JSON lines
metrics.py    counters and gauges
"""
