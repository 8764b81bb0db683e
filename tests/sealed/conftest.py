from tests.sealed.fixtures import project, user

__all__ = ["project", "user"]
