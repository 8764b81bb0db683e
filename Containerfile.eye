# The image of an agent's browser: Debian's chromium, and the one program that starts it. Nothing of the agent's.
#
# `minifram up` builds it when `web.browser` is on and it is not there.
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
    fi; \
    find / -xdev -type f -perm /6000 -exec chmod a-s {} +; \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb
COPY --chmod=644 infra/keep/eye/parent.py /opt/parent.py
ENTRYPOINT ["/usr/bin/python3.11", "-I", "-S", "/opt/parent.py", "/run/eye/eye.sock"]
