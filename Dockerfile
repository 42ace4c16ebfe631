# docker build -t flacheck-image . && docker run --rm -v "$PWD:/work" -v flacheck-cache:/cache flacheck-image scan
FROM python:3.12-slim
COPY . /src
RUN pip install --no-cache-dir /src && rm -r /src && useradd --create-home flacheck && mkdir /cache && chown flacheck /cache
USER flacheck
ENV FLACHECK_CACHE_DIR=/cache
WORKDIR /work
ENTRYPOINT ["flacheck"]
