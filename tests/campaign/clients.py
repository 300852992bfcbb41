"""Hostile clients of the store by which tasks of torchrun meet: the job ends as without them, and as soon."""
import random
import socket
import threading
import time

from .bench import one_line

GREETING = 51  # bytes of the server's first words: a line, a letter, a nonce
PROOF = 88     # of a client's: nonce, stream header, proof
SOON_S = 30    # of a busy machine: without anybody else it takes seconds


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def idle(connection, chance):
    return connection


def garbage(connection, chance):
    connection.sendall(chance.randbytes(chance.randint(1, 4096)))


def slow(connection, chance):
    connection.sendall(b"\0")
    return connection


def guess(connection, chance):
    connection.recv(GREETING)
    connection.sendall(chance.randbytes(PROOF))
    connection.recv(1)


def zero_bytes(connection, chance):
    connection.recv(GREETING)
    connection.sendall(bytes(PROOF))
    connection.recv(1)


def reflection(connection, chance):
    said = connection.recv(GREETING)
    connection.sendall((said * 2)[:PROOF])


def frames(connection, chance):
    connection.sendall(chance.randint(0, 2**32 - 1).to_bytes(4, "little") + b"S\5\0start" * 100)


KINDS = (idle, garbage, slow, guess, zero_bytes, reflection, frames)


class Hostile:
    """A thread that connects to the ports of a job as often as it can and behaves in one of these ways."""

    def __init__(self, port, chance):
        self.kind = chance.choice(KINDS)
        self.ports = range(port, port + 8)
        self.chance = random.Random(chance.random())
        self.connections = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.attack)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def attack(self):
        kept = []
        while not self.ended.is_set():
            try:
                connection = socket.create_connection(("127.0.0.1", self.chance.choice(self.ports)),
                                                      timeout=1)
                self.connections += 1
                kept.append(self.kind(connection, self.chance) or connection.close())
            except OSError:
                time.sleep(0.001)
            kept = [each for each in kept if each is not None][-300:]


def inject(bench, chance):
    port = free_port()
    secret = chance.choice(["s", "a long secret " * 200, chance.randbytes(16).hex()])
    tasks = []
    begun = time.monotonic()
    with Hostile(port, chance) as hostile:
        for rank in ("0", "1"):
            task = bench.environment(RANK=rank, WORLD_SIZE="2", LOCAL_RANK=rank, LOCAL_WORLD_SIZE="2",
                                     MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), PLUMBLINE_SECRET=secret)
            tasks.append(bench.start(["run", "run.yaml", "--tp", "2"], task))
        ended = [bench.finish(task) for task in tasks]
    findings = []
    for rank, each in enumerate(ended):
        findings += [f"task {rank} {finding}" for finding in bench.check_end(each, (0,))]
    if time.monotonic() - begun > SOON_S:
        findings.append(f"took {time.monotonic() - begun:.0f} s: {one_line(ended[0].stderr)}")
    findings += bench.check_leftovers()
    return [f"{hostile.kind.__name__}, {hostile.connections} connections: {finding}" for finding in findings]
