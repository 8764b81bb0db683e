from tests.sealed.fixtures import project, user
from tests.sealed.newer import podman5

__all__ = ["podman5", "project", "user"]
