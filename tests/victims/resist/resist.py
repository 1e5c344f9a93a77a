"""A Python program that obeys, accounts and checks itself: threads, timers, forks, a word of memory with a known address."""
import ctypes
import hashlib
import os
import signal
import sys
import threading
import time

cell = ctypes.c_uint64(0)
lock = threading.Lock()
rounds = [0, 0, 0]
errors = []
ticks = 0
stopping = False


def hit(n):
    for _ in range(n):
        with lock:
            cell.value += 1


def hashes(text=b"watch" * 4000):
    want = hashlib.sha256(text).digest()
    while not stopping:
        if hashlib.sha256(text).digest() != want or sum(range(1000)) != 499500:
            errors.append("hash")
        rounds[0] += 1
        time.sleep(0.001)


def naps():
    while not stopping:
        begin = time.monotonic()
        time.sleep(0.003)
        if time.monotonic() - begin < 0.003:
            errors.append("a sleep was cut short")
        rounds[1] += 1


def echoes():
    reader, writer = os.pipe()
    while not stopping:
        sent = os.urandom(512)
        os.write(writer, sent)
        if os.read(reader, 512) != sent:
            errors.append("pipe")
        child = threading.Thread(target=lambda: None)
        child.start()
        child.join()
        rounds[2] += 1
        time.sleep(0.001)


def forks():
    child = os.fork()
    if not child:
        cell.value = 5
        os._exit(cell.value)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 5:
        errors.append("child")


def tick(*_):
    global ticks
    ticks += 1


def work():
    for line in sys.stdin:
        verb, n = line.split()
        if verb == "hit":
            half = int(n) // 2
            other = threading.Thread(target=hit, args=(half,))
            other.start()
            hit(int(n) - half)
            other.join()
            print("ok", cell.value, flush=True)
        elif verb == "check":
            forks()
            print("ok", min(*rounds, ticks), len(errors), *errors[:3], flush=True)
        else:
            return


signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
threads = [threading.Thread(target=f) for f in (hashes, naps, echoes)]
for t in threads:
    t.start()
print("pid", os.getpid(), hex(ctypes.addressof(cell)), flush=True)
work()
stopping = True
for t in threads:
    t.join()
signal.setitimer(signal.ITIMER_REAL, 0)
print("bye", cell.value, len(errors), flush=True)
sys.exit(7)
