# syntax=docker/dockerfile:1

# What is built here is only the virtual environment; the second stage takes nothing else.
FROM python:3.13-slim AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1

WORKDIR /build
RUN python -m venv /opt/duetime

# Dependencies first: they change less often than the source, and their layer is kept.
COPY requirements/run.txt requirements/run.txt
RUN /opt/duetime/bin/pip install --require-hashes -r requirements/run.txt

COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/duetime/bin/pip install --no-deps .


FROM python:3.13-slim

LABEL org.opencontainers.image.title="Duetime" \
      org.opencontainers.image.description="A durable timer service" \
      org.opencontainers.image.licenses="Apache-2.0"

ENV PATH=/opt/duetime/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    DATABASE_URL=sqlite:////data/duetime.db

# A number, so that Kubernetes can see that it is not root.
RUN groupadd --gid 10001 duetime \
    && useradd --uid 10001 --gid duetime --no-create-home --home-dir /data duetime \
    && install --directory --owner=duetime --group=duetime /data

COPY --from=build /opt/duetime /opt/duetime

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080

# A node that is asked to stop ends its callbacks first: DRAIN_TIMEOUT is 25 s.
STOPSIGNAL SIGTERM

HEALTHCHECK --interval=10s --timeout=6s --start-period=10s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ.get('PORT') or 8080}/healthz\", timeout=5)"]

ENTRYPOINT ["duetime"]
CMD ["serve"]
