"""Our codec against protobuf's own Python package: random messages and damaged ones, in both encodings."""

import json
import random
import re
import struct
import subprocess
import sys

import pytest

from native import ROOT, WORK, build, run

PROTOBUF = "protobuf==7.36.2"
MESSAGES = ["RunRequest", "RunResponse", "DescribeResponse", "SessionRunRequest", "SessionRunResponse",
            "OpenSessionRequest", "CloseSessionResponse", "UnansweredCall", "SessionEnded"]
LONG_TAG = re.compile(rb"[\x80-\xff]{5}")
ROUNDS = 400
SEED = 20240607

TEXTS = ["", "a", "é", "\U0001f600", "\0", "\"\\/\b\f\n\r\t\x01", "\u2028\uffff", "x" * 300]
INTEGERS = {32: [0, 1, -1, 2**31 - 1, -2**31], 64: [0, 1, -1, 2**53 + 1, 2**63 - 1, -2**63]}
DOUBLES = [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, 5e-324, 1e21, 123456789.123, float("inf"), float("-inf"), float("nan")]


@pytest.fixture(scope="module")
def protobuf():
    """The package, kept out of the system: installed for this test below build/."""
    target = WORK / "python"
    if not (target / "google").is_dir():
        try:
            run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, PROTOBUF, timeout=200)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{PROTOBUF} cannot be installed: {(error.stderr or str(error)).splitlines()[-1:]}")
    sys.path.insert(0, str(target))
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message, message_factory
    described = WORK / "sandbox.desc"
    run("protoc-c", f"--proto_path={ROOT / 'proto'}", f"--descriptor_set_out={described}", "plimsoll/v1/sandbox.proto")
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(described.read_bytes()).file:
        pool.Add(file)

    class Package:
        formats, DecodeError = json_format, message.DecodeError

        @staticmethod
        def type(name):
            return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"plimsoll.v1.{name}"))

    return Package


class Filter:
    """Our codec in a process of its own."""

    def __init__(self):
        self.process = subprocess.Popen([build("codec_filter.c")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, is_json, name, data):
        """(binary, JSON) of what was decoded, or None."""
        head = struct.pack("=BBI", is_json, len(name), len(data))
        self.process.stdin.write(head + name.encode() + data)
        self.process.stdin.flush()
        if self.process.stdout.read(1) != b"\1":
            return None
        return self.read(), self.read()

    def read(self):
        (length,) = struct.unpack("=I", self.process.stdout.read(4))
        return self.process.stdout.read(length)


@pytest.fixture(scope="module")
def ours():
    running = Filter()
    yield running
    running.process.stdin.close()
    assert running.process.wait(10) == 0


def random_value(field, chance):
    kinds = type(field)
    if field.type == kinds.TYPE_STRING:
        return chance.choice(TEXTS)
    if field.type == kinds.TYPE_BYTES:
        return chance.randbytes(chance.choice([0, 1, 2, 3, 50]))
    if field.type == kinds.TYPE_BOOL:
        return chance.random() < 0.5
    if field.type == kinds.TYPE_DOUBLE:
        return chance.choice(DOUBLES + [chance.uniform(-1e6, 1e6), struct.unpack("d", chance.randbytes(8))[0]])
    if field.type == kinds.TYPE_ENUM:
        return chance.choice([v.number for v in field.enum_type.values] + [77])
    bits = 64 if field.type in (kinds.TYPE_INT64, kinds.TYPE_UINT64) else 32
    value = chance.choice(INTEGERS[bits])
    return value % 2**bits if field.type in (kinds.TYPE_UINT32, kinds.TYPE_UINT64) else value


def fill(message, chance, depth=0):
    chosen = {oneof.name: chance.choice(oneof.fields).name for oneof in message.DESCRIPTOR.oneofs}
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.3 or depth > 4:
            continue
        if field.containing_oneof and chosen[field.containing_oneof.name] != field.name:
            continue
        values = getattr(message, field.name)
        if field.message_type and field.is_repeated:
            for _ in range(chance.randrange(4)):
                fill(values.add(), chance, depth + 1)
        elif field.message_type:
            values.SetInParent()
            fill(values, chance, depth + 1)
        elif field.is_repeated:
            values.extend(random_value(field, chance) for _ in range(chance.randrange(5)))
        else:
            setattr(message, field.name, random_value(field, chance))
    return message


def messages(protobuf, seed):
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        name = chance.choice(MESSAGES)
        yield name, fill(protobuf.type(name)(), chance), chance


def same(a, b):
    """Equal to the bit, but for the payload of a NaN, which JSON has no word for."""
    return canonical(a) == canonical(b)


def canonical(message):
    copy = type(message)()
    copy.CopyFrom(message)
    copy.DiscardUnknownFields()
    rewrite_nan(copy)
    return copy.SerializeToString(deterministic=True)


def rewrite_nan(message):
    for field, value in message.ListFields():
        if field.message_type:
            for item in value if field.is_repeated else [value]:
                rewrite_nan(item)
        elif field.cpp_type == field.CPPTYPE_DOUBLE:
            if field.is_repeated:
                value[:] = [float("nan") if item != item else item for item in value]
            elif value != value:
                setattr(message, field.name, float("nan"))


def for_python(text):
    """Python reads -0 as the integer 0; the contract writes it so all the same."""
    return re.sub(rb"(?<=[\[,: ])-0(?=[,\]} ])", b"-0.0", text)


def no_duplicates(pairs):
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


def test_random_messages_agree(protobuf, ours):
    for name, message, _ in messages(protobuf, SEED):
        kind = type(message)
        for is_json, data in ((0, message.SerializeToString()),
                              (1, protobuf.formats.MessageToJson(message).encode()),
                              (1, protobuf.formats.MessageToJson(message, preserving_proto_field_name=True,
                                                                 use_integers_for_enums=True).encode())):
            answer = ours.ask(is_json, name, data)
            assert answer, (name, is_json, data)
            binary, text = answer
            assert same(kind.FromString(binary), message), (name, data)
            json.loads(text, object_pairs_hook=no_duplicates, parse_constant=pytest.fail)
            assert same(protobuf.formats.Parse(for_python(text), kind()), message), (name, text)


def damaged(data, chance):
    data = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        where, what = chance.randrange(len(data) + 1), chance.randrange(4)
        if what == 0:
            del data[where:where + chance.randrange(1, 5)]
        elif what == 1:
            data[where:where] = chance.randbytes(chance.randrange(1, 3))
        elif what == 2 and where < len(data):
            data[where] ^= 1 << chance.randrange(8)
        else:
            end = where + chance.randrange(1, 20)
            data[where:where] = data[where:end]
    return bytes(data)


def test_damaged_binary_is_judged_alike(protobuf, ours):
    """The package lets a field number of 0 and a varint of more than 64 bits pass, and refuses a tag of more than five
    bytes, which the contract allows; damage seldom makes one of them."""
    accepted = stricter = 0
    for name, message, chance in messages(protobuf, SEED + 1):
        for _ in range(10):
            data = damaged(message.SerializeToString(), chance)
            answer = ours.ask(0, name, data)
            try:
                theirs = type(message).FromString(data)
            except protobuf.DecodeError:
                theirs = None
            if theirs is None:
                assert answer is None or LONG_TAG.search(data), (name, data)
            elif answer is None:
                stricter += 1
            else:
                accepted += 1
                assert same(type(message).FromString(answer[0]), theirs), (name, data)
    assert accepted > ROUNDS  # otherwise nothing was compared
    assert stricter < accepted / 50


def test_damaged_json_is_never_read_differently(protobuf, ours):
    """The package's JSON reader is laxer than the contract, so only what both accept is compared."""
    accepted = 0
    for name, message, chance in messages(protobuf, SEED + 2):
        text = protobuf.formats.MessageToJson(message, indent=None).encode()
        for _ in range(10):
            data = damaged(text, chance)
            answer = ours.ask(1, name, data)
            if answer is None:
                continue
            try:
                theirs = protobuf.formats.Parse(for_python(data), type(message)(), ignore_unknown_fields=True)
            except (protobuf.formats.ParseError, UnicodeDecodeError):
                theirs = None
            assert theirs is not None, (name, data)
            accepted += 1
            assert same(type(message).FromString(answer[0]), theirs), (name, data)
    assert accepted > ROUNDS // 2
