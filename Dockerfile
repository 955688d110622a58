# The wheel is built in one stage and installed in another, with the versions of the lock file.
#   docker build -t understudy .
#   docker run --init --user "$(id -u)" -v "$PWD:/work" understudy up --workers 2 --exec ./work.sh
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
WORKDIR /source
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE requirements.lock ./
COPY actors actors
COPY authority authority
COPY contracts contracts
COPY native native
COPY src src
COPY surfaces surfaces
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:${PYTHON}-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git && rm -rf /var/lib/apt/lists/*
COPY requirements.lock /tmp/
COPY --from=build /wheels /tmp/wheels
# The lock has hashes, and more than is needed here; it only says which versions are taken.
RUN sed -n 's/^\([A-Za-z0-9_.-]*\)\(\[[^]]*\]\)\{0,1\}==\([^ ;\\]*\).*/\1==\3/p' /tmp/requirements.lock > /tmp/constraints \
    && pip install --no-cache-dir --constraint /tmp/constraints "$(ls /tmp/wheels/*.whl)[mcp,metrics,postgres,web]" \
    && rm -rf /tmp/wheels /tmp/constraints /tmp/requirements.lock
RUN useradd --create-home understudy
USER understudy
WORKDIR /work
VOLUME /work
# No tree is no failure of the container: `doctor` says whether the state directory is sound.
HEALTHCHECK --interval=30s --timeout=10s CMD ["understudy", "doctor", "--json"]
ENTRYPOINT ["understudy"]
CMD ["--help"]
