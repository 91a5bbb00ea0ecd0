"""A standalone Spark cluster of two workers on this machine, from the files of the pip package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.lab.demo_overlay import free_ports
from penstock.pipeline.java import find_java

WORKERS = 2
LIMIT_S = 90.0


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each; they end with the block."""
    port, page = free_ports(2)
    master = f"spark://127.0.0.1:{port}"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes.append(
            _started(folder, "master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page))
        )
        for number in range(WORKERS):
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
            processes.append(_started(folder, "worker", *options, "--work-dir", str(folder / f"work-{number}"), master))
        _wait_for_workers(page, processes, folder)
        yield master
    finally:
        for process in reversed(processes):
            process.kill()
        for process in processes:
            process.wait()


def _started(folder: Path, role: str, *arguments: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        # Executors have it from their worker.
        "JDK_JAVA_OPTIONS": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}.{role.capitalize()}", *arguments]
    with (folder / "cluster.log").open("ab") as log:
        # The script becomes the Java it starts, so that killing the process kills the daemon.
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _wait_for_workers(page: int, processes: list[subprocess.Popen[bytes]], folder: Path) -> None:
    pause = threading.Event()
    for _ in range(int(LIMIT_S / 0.1)):
        if any(process.poll() is not None for process in processes):
            break
        if _alive(page) == WORKERS:
            return
        pause.wait(0.1)
    raise AssertionError("the cluster did not start:\n" + (folder / "cluster.log").read_text()[-4000:])


def _alive(page: int) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return 0
