# TensorBoard with Torch Trace on the folder mounted at /logs: docs/tools/docker.md.

FROM node:22-slim AS page
WORKDIR /src/frontend
COPY frontend/package.json frontend/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY frontend ./
RUN npm run build -- --logLevel warn

FROM python:3.13-slim AS package
WORKDIR /src
COPY LICENSE README.md pyproject.toml setup.py MANIFEST.in constraints.txt ./
COPY tb_plugin ./tb_plugin
COPY torch_trace_megengine ./torch_trace_megengine
COPY --from=page /src/tb_plugin/static ./tb_plugin/static
RUN python -m venv /opt/torch-trace \
    && TORCH_TRACE_NO_FRONTEND=1 /opt/torch-trace/bin/pip install --no-cache-dir --constraint constraints.txt '.[sql,s3,gcs,azure]'

FROM python:3.13-slim
COPY --from=package /opt/torch-trace /opt/torch-trace
RUN useradd --create-home --uid 1000 trace && install -d -o trace -g trace /home/trace/.cache
ENV PATH=/opt/torch-trace/bin:$PATH \
    PYTHONUNBUFFERED=1
USER trace
WORKDIR /home/trace
EXPOSE 6006
VOLUME /logs
CMD ["tensorboard", "--logdir", "/logs", "--host", "0.0.0.0", "--port", "6006"]
