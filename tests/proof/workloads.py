"""Work of real libraries whose C code calls back into Python, so that stacks of many shapes arise.

Each function does a little of one kind; the caller repeats it.
"""

from __future__ import annotations

import ast
import asyncio
import bisect
import contextlib
import csv
import ctypes
import decimal
import functools
import gzip
import hashlib
import heapq
import io
import itertools
import json
import lzma
import operator
import random
import re
import signal
import sqlite3
import ssl
import struct
import threading
import xml.etree.ElementTree as ET
import xml.parsers.expat
import zlib

LIBC = ctypes.CDLL(None)
TEXT = " ".join(f"word{i} {i * 37 % 101}" for i in range(40))


def json_encode_and_decode():
    class Point:
        def __init__(self, x):
            self.x = x

    data = {"list": [Point(i) for i in range(5)], "deep": [[[[[Point(1)]]]]], "float": 1.5}
    text = json.dumps(data, default=lambda p: {"x": p.x}, sort_keys=True)
    json.loads(text, object_hook=lambda d: d, parse_float=lambda s: s)
    json.dumps(json.loads(text), indent=1)


def regular_expressions():
    re.sub(r"(\w+?)(\d+)", lambda m: m.group(2) + re.sub("o", lambda _: "0", m.group(1)), TEXT[:80])
    re.compile(r"(a|b)*c{1,3}[^d]" + str(random.randrange(1000))).search(TEXT)


def sqlite_callbacks():
    class Longest:
        def __init__(self):
            self.text = ""

        def step(self, text):
            self.text = max(self.text, text, key=len)

        def finalize(self):
            return self.text

    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.create_function("twice", 1, lambda n: n * 2)
        db.create_aggregate("longest", 1, Longest)
        db.create_collation("backwards", lambda a, b: (a < b) - (a > b))
        db.set_progress_handler(lambda: 0, 20)
        db.set_authorizer(lambda *_: sqlite3.SQLITE_OK)
        db.set_trace_callback(lambda _: None)
        db.execute("create table t(n integer, s text)")
        db.executemany("insert into t values(?, ?)", ((i, f"s{i * 7 % 13}") for i in range(10)))
        db.execute("select twice(n), longest(s) from t where twice(n) > 4 group by n % 3").fetchall()
        db.execute("select s from t order by s collate backwards").fetchall()


def ctypes_callbacks():
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))

    def inner(a, b):
        return a[0] - b[0]

    def outer(a, b):
        pair = (ctypes.c_int * 3)(3, 1, 2)
        LIBC.qsort(pair, 3, ctypes.sizeof(ctypes.c_int), kind(inner))
        return a[0] - b[0]

    values = (ctypes.c_int * 6)(5, 3, 9, 1, 7, 2)
    LIBC.qsort(values, len(values), ctypes.sizeof(ctypes.c_int), kind(outer))
    key = ctypes.c_int(7)
    LIBC.bsearch(ctypes.byref(key), values, len(values), ctypes.sizeof(ctypes.c_int), kind(inner))


def compression():
    class Chunks(io.RawIOBase):
        def __init__(self):
            self.bytes = bytearray()

        def writable(self):
            return True

        def write(self, data):
            self.bytes += data
            return len(data)

    for opener in (lambda file, mode: gzip.GzipFile(fileobj=file, mode=mode), lzma.LZMAFile):
        target = Chunks()
        with opener(target, "w") as file, io.TextIOWrapper(io.BufferedWriter(file, 64)) as text:
            text.write(TEXT)
    for line in io.TextIOWrapper(gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(TEXT.encode())))):
        zlib.crc32(line.encode())


def tls_ends():
    """A client and its server.  The callback runs below libssl's state machine: a handshake without
    certificates."""
    ends = []
    for side in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT):
        context = ssl.SSLContext(side)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AECDH-AES128-SHA:@SECLEVEL=0")
        context._msg_callback = lambda *_: None
        if side == ssl.PROTOCOL_TLS_SERVER:
            context.sni_callback = lambda *_: None
        ends.append((context, ssl.MemoryBIO(), ssl.MemoryBIO()))
    (server_context, a, b), (client_context, _, _) = ends
    server = server_context.wrap_bio(a, b, server_side=True)
    client = client_context.wrap_bio(b, a, server_hostname="name")
    for _ in range(4):
        for end in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return client, server


def hashing_and_tls():
    client, server = tls_ends()
    client.write(TEXT.encode())
    hashlib.sha256(server.read(5000)).hexdigest()


def small_records(client, server):
    """The functions in assembly that AES uses for a few blocks, which others hardly call."""
    for length in range(1, len(TEXT), 7):
        client.write(TEXT[:length].encode())
        server.read(5000)


def sorting_and_iterating():
    @functools.cmp_to_key
    def key(a, b):
        return sorted((a, b), key=lambda n: -n)[0] - a

    sorted(range(6), key=lambda n: functools.reduce(lambda x, y: x + y, range(n), 0))
    sorted([3, 1, 2], key=key)
    list(map(lambda n: list(filter(lambda m: m > n, range(3))), range(3)))
    list(itertools.groupby(range(5), key=lambda n: n // 2))
    list(itertools.accumulate(range(4), lambda a, b: a * b))
    bisect.bisect([1, 2, 3, 4], 3, key=lambda n: n)
    heapq.nsmallest(2, range(6), key=lambda n: -n)
    max(range(4), key=operator.methodcaller("__neg__"))


def generators():
    def numbers(depth):
        if depth:
            yield from numbers(depth - 1)
        yield depth

    for number in numbers(8):
        next(n for n in numbers(2) if n <= number)
    sum(x for x in itertools.chain.from_iterable(map(numbers, range(3))))


def coroutines():
    async def inner(n):
        await asyncio.sleep(0)
        return n

    async def agen():
        for i in range(2):
            yield await inner(i)

    async def main():
        async for value in agen():
            await asyncio.gather(inner(value), inner(2))

    asyncio.run(main())


def code_at_run_time():
    exec(compile("def f(n):\n return n and f(n - 1)\nf(5)", "made", "exec"), {})
    eval("[(lambda: n)() for n in range(3)]")

    class Names(ast.NodeVisitor):
        def visit_Name(self, node):
            return node.id

    Names().visit(ast.parse("a + b * c(d)"))
    type("Made", (), {"__set_name__": None, "f": functools.singledispatch(lambda x: x)})


def parsers():
    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = lambda name, attributes: sorted(attributes)
    parser.CharacterDataHandler = lambda text: text.upper()
    parser.EndElementHandler = str.upper
    parser.Parse("<a b='1'><c>text</c><c d='2' e='3'/></a>", True)
    ET.fromstring("<a><b>1</b></a>", ET.XMLParser(target=ET.TreeBuilder(lambda *a: ET.Element(*a))))
    list(csv.reader(line for line in ["a,b", "1,2"]))
    struct.unpack("3i", struct.pack("3i", *map(int, "123")))


def signals():
    def handler(number, frame):
        return sorted([number], key=lambda n: n)

    # SIGPROF may be in use to interrupt this very work.
    before = signal.signal(signal.SIGUSR1, handler)
    for _ in range(3):
        signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


def deep_recursion():
    def through_c(depth):
        return depth and max(map(through_c, [depth - 1]))

    def plain(depth):
        return depth and plain(depth - 1) + 1

    plain(60)
    through_c(25)


IN_ANY_THREAD = (
    json_encode_and_decode,
    regular_expressions,
    sqlite_callbacks,
    ctypes_callbacks,
    compression,
    hashing_and_tls,
    sorting_and_iterating,
    generators,
    coroutines,
    code_at_run_time,
    parsers,
    deep_recursion,
)


def threads(begin=lambda: None, count=4):
    """All of them at once in COUNT threads, each of which calls BEGIN first."""

    def work(first):
        begin()
        for i in range(len(IN_ANY_THREAD)):
            IN_ANY_THREAD[(first + i) % len(IN_ANY_THREAD)]()

    running = [threading.Thread(target=work, args=(i * 4,)) for i in range(count)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def without_callbacks():
    """Long stretches of C code, for a timer to interrupt."""
    data = TEXT.encode() * 40
    for level in (1, 6, 9):
        zlib.decompress(zlib.compress(data, level))
    lzma.decompress(lzma.compress(data[:5000]))
    for name in ("md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b"):
        hashlib.new(name, data).hexdigest()
    hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 20)
    sorted(random.random() for _ in range(300))
    pow(3, 5000, 10**60 + 7)
    str(7**2000)
    decimal.getcontext().sqrt(decimal.Decimal(2))
    json.loads(json.dumps(list(range(300))))
    re.findall(r"(\w+) (\d+)", TEXT)
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("create table t(n)")
        db.executemany("insert into t values(?)", ((i,) for i in range(50)))
        db.execute("select count(*) from t a, t b where a.n < b.n").fetchone()
