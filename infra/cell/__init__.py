from infra.shared.late import load_when_used

load_when_used("asyncio")  # by structlog, for loggers that we do not have
load_when_used("ssl")  # by http.client, which here talks to a socket on this machine
