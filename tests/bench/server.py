"""A real program under load: redis-server, the counter of its commands watched.

Debian's redis-server carries no debug information, but its symbol table names `server`, the structure that
holds the counter. Which of its words that is, the program tells itself: the one that follows what INFO
reports as total_commands_processed.
"""

import os
import shutil
import signal
import socket
import struct
import subprocess
import time

START_TIMEOUT_S = 5
LOAD_SETTLE_S = 0.2


class ServerError(Exception):
    pass


def missing():
    for program, package in [("redis-server", "redis-server"), ("redis-benchmark", "redis-tools"), ("nm", "binutils")]:
        if not shutil.which(program):
            return f"{program} is not installed (package {package})"
    return None


def _symbol(path, name):
    listing = subprocess.run(
        ["nm", "-D", "-S", "--defined-only", path], check=True, capture_output=True, text=True, timeout=20
    ).stdout
    for line in listing.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[3] == name:
            return int(fields[0], 16), int(fields[1], 16)
    raise ServerError(f"{path} has no symbol '{name}' with a size")


def _load_base(pid, path):
    with open(f"/proc/{pid}/maps", "r", encoding="utf-8", errors="replace") as f:
        for line in f:
            fields = line.split()
            if len(fields) >= 6 and fields[5] == path and int(fields[2], 16) == 0:
                return int(fields[0].split("-")[0], 16)
    raise ServerError(f"{path} is not mapped in process {pid}")


class Server:
    def __init__(self, folder):
        self.load = None
        self.socket = os.path.join(folder, "redis.sock")
        options = ["--port", "0", "--unixsocket", self.socket, "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen(
            ["redis-server", *options],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.pid = self.process.pid
        try:
            self.client = self._connect()
            self.memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            self.addr = self._find_counter()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for process in (self.process, self.load):
            if process:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                process.wait()

    def _connect(self):
        end = time.monotonic() + START_TIMEOUT_S
        while True:
            s = socket.socket(socket.AF_UNIX)
            try:
                s.connect(self.socket)
                s.settimeout(START_TIMEOUT_S)
                return s
            except OSError as e:
                s.close()
                if time.monotonic() > end or self.process.poll() is not None:
                    raise ServerError("redis-server does not answer") from e
                time.sleep(0.01)

    def _commands_processed(self):
        self.client.sendall(b"INFO stats\r\n")
        reply = b""
        while b"total_commands_processed:" not in reply or not reply.endswith(b"\r\n"):
            chunk = self.client.recv(65536)
            if not chunk:
                raise ServerError("redis-server closed the connection")
            reply += chunk
        return int(reply.split(b"total_commands_processed:")[1].split(b"\r\n")[0])

    def _find_counter(self):
        path = os.path.realpath(f"/proc/{self.pid}/exe")
        offset, size = _symbol(path, "server")
        start = _load_base(self.pid, path) + offset
        candidates = None
        for step in range(3):
            told = self._commands_processed()
            time.sleep(0.01)  # the command that told is counted when it is done
            words = struct.unpack(f"<{size // 8}Q", os.pread(self.memory, size // 8 * 8, start))
            found = {i: word - told for i, word in enumerate(words) if 0 <= word - told <= 1}
            same = {i for i in found if candidates is None or candidates.get(i) == found[i]}
            candidates = {i: found[i] for i in same}
            self._ping(7 + step)
        if len(candidates) != 1:
            raise ServerError(f"{len(candidates)} words of 'server' follow total_commands_processed, not one")
        return start + 8 * candidates.popitem()[0]

    def _ping(self, times):
        """In one packet, so that the counters of reads and writes go another way."""
        self.client.sendall(b"PING\r\n" * times)
        reply = b""
        while len(reply) < times * len(b"+PONG\r\n"):
            reply += self.client.recv(4096)

    def commands(self):
        """How many commands were executed; read from outside, for the server may be stopped by a debugger."""
        return struct.unpack("<Q", os.pread(self.memory, 8, self.addr))[0]

    def start_load(self):
        command = ["redis-benchmark", "-s", self.socket, "-t", "set", "-P", "16", "-c", "8", "-n", "1000000000", "-q"]
        self.load = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(LOAD_SETTLE_S)

    def rate(self, seconds):
        """Commands a second."""
        begin, before = time.monotonic(), self.commands()
        time.sleep(seconds)
        done, end = self.commands() - before, time.monotonic()
        return done / (end - begin)

    def wait_slower(self, than, timeout, tool_alive):
        """True once the throughput has fallen under `than`: what watches the counter has begun to."""
        end = time.monotonic() + timeout
        while time.monotonic() < end and tool_alive():
            rate = self.rate(0.05)
            if 0 < rate < than:
                return True
        return False
