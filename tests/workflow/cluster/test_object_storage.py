"""Results on an object store that speaks S3, through Snakemake's own storage plugin."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

boto3 = pytest.importorskip("boto3", reason="envs/cluster.txt is not installed")

pytestmark = [pytest.mark.workflow, pytest.mark.cluster]

SERVER = """
import sys, threading
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", int(sys.argv[1]), verbose=False)
server.start()
print("ready", flush=True)
threading.Event().wait()
"""
PLACE = "s3://laboratory/some/where"
IN_THE_STORE = ("--default-storage-provider", "s3", "--default-storage-prefix", PLACE)


@pytest.fixture
def store():
    """An empty bucket of a server on this machine, and how Snakemake reaches it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout.readline().strip() == "ready"
        keys = {"endpoint_url": f"http://127.0.0.1:{port}", "region": "us-east-1"}
        keys |= {"access_key": "any", "secret_key": "any"}
        client = boto3.client(
            "s3",
            endpoint_url=keys["endpoint_url"],
            region_name=keys["region"],
            aws_access_key_id="any",
            aws_secret_access_key="any",
        )
        client.create_bucket(Bucket="laboratory")
        yield client, {f"SNAKEMAKE_STORAGE_S3_{key.upper()}": text for key, text in keys.items()}
    finally:
        server.kill()
        server.communicate()


def content(client):
    """Every result file in the store."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="laboratory")
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
    return {
        key.removeprefix("some/where/"): client.get_object(Bucket="laboratory", Key=key)[
            "Body"
        ].read()
        for key in keys
        if "/results/" in key
    }


def test_a_second_folder_finds_everything_in_the_store(fresh, sources, store, completed, tmp_path):
    client, environment = store
    run = fresh.finish(fresh.start("--cores", "2", *IN_THE_STORE, **environment))
    assert run.jobs == sorted(["prepare digits", *fresh.jobs_from_training(*fresh.PACKS)])
    assert not (fresh / "results").exists()
    made = content(client)
    assert made == completed.results()

    elsewhere = sources.copy(tmp_path / "elsewhere")
    again = elsewhere.start("--cores", "2", *IN_THE_STORE, **environment)
    assert elsewhere.finish(again).jobs == []

    client.delete_object(Bucket="laboratory", Key=f"some/where/{elsewhere.FIGURE}.pdf")
    drawn = elsewhere.start("--cores", "2", *IN_THE_STORE, "chen2026_figH8", **environment)
    assert elsewhere.finish(drawn).jobs == ["chen2026_figH8", "draw figH8"]
    assert content(client) == made
