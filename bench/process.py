"""Servers under test as process trees: started, measured in CPU seconds and resident bytes, ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

START_LIMIT = 30.0  # seconds

NGINX = """
daemon off; worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log warn;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f;
  uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s; client_max_body_size 0; client_body_buffer_size 2m;
  keepalive_requests 1000000;
  upstream model {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=2048;
    location / {{ proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }}
  }}
}}
"""

GATEWAY = """
listen: 127.0.0.1:{port}
admin: {{ listen: "127.0.0.1:{admin}" }}
backends: {{ model: {{ kind: openai, url: "http://127.0.0.1:{upstream}" }} }}
canonical: {{ mode: {mode} }}
state_dir: ""
log: {{ format: json, level: info }}
"""


class Tree:
    """A process and all that it started."""

    def __init__(self, process: subprocess.Popen[bytes], port: int):
        self.process, self.port = process, port

    def pids(self) -> list[int]:
        found, rest = [], [self.process.pid]
        while rest:
            pid = rest.pop()
            found.append(pid)
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    rest += map(int, (task / "children").read_text().split())
        return found

    def cpu(self) -> float:
        """CPU seconds used so far, user and system, of all threads; nanosecond resolution where the kernel keeps schedstat."""
        total = 0.0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                for task in Path(f"/proc/{pid}/task").iterdir():
                    total += int((task / "schedstat").read_text().split()[0]) / 1e9
        return total

    def resident(self) -> int:
        """Bytes of memory in use."""
        pages = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextlib.contextmanager
def upstream() -> Iterator[Tree]:
    with _module("bench.upstream") as tree:
        yield tree


@contextlib.contextmanager
def bare(upstream_port: int) -> Iterator[Tree]:
    with _module("bench.bare", str(upstream_port)) as tree:
        yield tree


@contextlib.contextmanager
def _module(name: str, *args: str) -> Iterator[Tree]:
    """A module of ours that prints its port."""
    process = subprocess.Popen([sys.executable, "-m", name, *args], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with _ended(process):
        yield Tree(process, int(process.stdout.readline()))
    process.stdout.close()


@contextlib.contextmanager
def nginx(directory: Path, upstream_port: int) -> Iterator[Tree]:
    """Raises FileNotFoundError where nginx is not installed."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        raise FileNotFoundError("nginx")
    port = free_port()
    config = directory / "nginx.conf"
    config.write_text(NGINX.format(dir=directory, port=port, upstream=upstream_port))
    command = [program, "-p", str(directory), "-c", str(config), "-e", str(directory / "start.log")]
    with _serving(command, port, directory / "nginx.out") as tree:
        yield tree


@contextlib.contextmanager
def gateway(directory: Path, upstream_port: int, mode: str) -> Iterator[Tree]:
    """mode: of the canonical form."""
    port, admin = free_port(), free_port()
    config = directory / f"gateway-{mode}.yaml"
    config.write_text(GATEWAY.format(port=port, admin=admin, upstream=upstream_port, mode=mode))
    command = [sys.executable, "-m", "gateway", "run", "--config", str(config)]
    with _serving(command, port, directory / f"gateway-{mode}.out") as tree:
        yield tree


@contextlib.contextmanager
def litellm(directory: Path, upstream_port: int) -> Iterator[Tree]:
    """Raises FileNotFoundError where it is not installed (`pip install 'litellm[proxy]'`)."""
    program = shutil.which("litellm", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if program is None:
        raise FileNotFoundError("litellm")
    port, config = free_port(), directory / "litellm.yaml"
    config.write_text(
        "model_list:\n  - model_name: '*'\n    litellm_params: { model: 'openai/*', api_key: x, "
        f"api_base: 'http://127.0.0.1:{upstream_port}/v1' }}\n"
    )
    command = [program, "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    with _serving(command, port, directory / "litellm.out", limit=120.0) as tree:
        yield tree


@contextlib.contextmanager
def _serving(command: list[str], port: int, output: Path, limit: float = START_LIMIT) -> Iterator[Tree]:
    with output.open("wb") as sink:
        process = subprocess.Popen(command, stdout=sink, stderr=sink, stdin=subprocess.DEVNULL)
        with _ended(process):
            end = time.monotonic() + limit
            while not _accepts(port):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"{command[0]} does not start:\n{output.read_text(errors='replace')[-2000:]}")
                time.sleep(0.05)
            yield Tree(process, port)


def _accepts(port: int) -> bool:
    with socket.socket() as sock:
        sock.settimeout(1.0)
        return sock.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
