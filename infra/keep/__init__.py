from infra.shared.late import load_when_used

load_when_used("asyncio")  # by structlog, for loggers that we do not have
