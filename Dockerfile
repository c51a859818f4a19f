# dawn9 on a CPU in a container, with CIFAR-10 and the runs in persistent volumes:
#     docker build -t dawn9 .
#     docker run --rm -it -v dawn9-data:/root -v dawn9-runs:/opt/dawn9/runs dawn9 experiments/reproduce.sh small
FROM debian:12-slim
WORKDIR /opt/dawn9
COPY . .
RUN apt-get update -qq && ./setup.sh && apt-get install -y -qq --no-install-recommends curl ca-certificates python3 \
    && rm -rf /var/lib/apt/lists/*
ENV PATH="/opt/dawn9/build:${PATH}"
CMD ["dawn9", "--help"]
