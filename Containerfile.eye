# The image of an agent's browser: chromium and the one program of ours that starts it. It holds no key, no repository
# and nothing of an agent's.
#
# `minifram up` builds it when `web.browser` is on and it is not there. It needs nothing from outside but its base and, if
# that lacks them, Debian's packages.
ARG BASE
FROM ${BASE}

ARG PACKAGES="chromium fonts-dejavu-core python3.11"
RUN set -eu; \
    missing=$(for name in $PACKAGES; do \
        case $(dpkg-query --show --showformat='${Status}' "$name" 2>/dev/null) in *' installed') ;; *) echo "$name" ;; esac; \
    done); \
    if [ -n "$missing" ]; then \
        export DEBIAN_FRONTEND=noninteractive; \
        apt-get -q update; \
        apt-get -q install --yes --no-install-recommends $missing; \
    fi

COPY infra/keep/eye/parent.py /opt/eye/parent.py

RUN set -eu; \
    chmod 755 /opt/eye; chmod 644 /opt/eye/parent.py; \
    mkdir -p /run/eye; \
    find / -xdev -type f -perm /6000 -exec chmod a-s {} +; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/cache/debconf/*-old \
        /var/log/apt /var/log/dpkg.log /var/log/alternatives.log /root/.cache /tmp/* /var/tmp/*

WORKDIR /
ENTRYPOINT ["/usr/bin/python3.11", "-I", "-S", "/opt/eye/parent.py", "/run/eye/eye.sock"]
