"""Fresh copies of one prepared site, for all that is planted."""

from __future__ import annotations

import pytest

from tests.host.tampering.examination import NewSite, sites_at
from tests.host.tampering.site import Site


@pytest.fixture(scope="session")
def new_site(tmp_path_factory: pytest.TempPathFactory) -> NewSite:
    return sites_at(tmp_path_factory.mktemp("planted"))


@pytest.fixture
def site(new_site: NewSite) -> Site:
    return new_site()
