# The operator:        docker build -t gatewright:0.1.0 .
# The sample service:  docker build -t gatewright-sample:0.1.0 --target sample .
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE requirements-image.lock ./
RUN python -m venv /opt/gatewright \
 && /opt/gatewright/bin/pip install --no-cache-dir --require-hashes -r requirements-image.lock
COPY crds crds
COPY analysis analysis
COPY operator operator
COPY cli cli
RUN /opt/gatewright/bin/pip install --no-cache-dir --no-deps .

FROM python:3.13-slim AS sample
COPY devcluster/__init__.py devcluster/sample.py devcluster/sample_http.py devcluster/sample_metrics.py /srv/devcluster/
WORKDIR /srv
ENV POD_LISTEN_IP=0.0.0.0
USER 65532:65532
ENTRYPOINT ["python", "-m", "devcluster.sample"]

FROM python:3.13-slim
COPY --from=build /opt/gatewright /opt/gatewright
ENV PATH=/opt/gatewright/bin:$PATH OPENBLAS_NUM_THREADS=1 PYTHONUNBUFFERED=1
USER 65532:65532
ENTRYPOINT ["gatewright"]
CMD ["operator"]
