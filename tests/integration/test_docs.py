"""The documents against the program: quoted output, code samples, links, settings, and the rules for what a page may say."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = ROOT / "build/bin"

LISTED = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"], cwd=ROOT,
                        check=True, capture_output=True, text=True).stdout.split("\n")
FILES = [ROOT / name for name in LISTED if name and (ROOT / name).is_file()]
PAGES = [path for path in FILES if path.suffix == ".md"]
DOCUMENTS = [path for path in PAGES if path.is_relative_to(ROOT / "docs")] + [
    ROOT / name for name in ("README.md", "SECURITY.md", "AGENTS.md", "CHANGELOG.md")]
SOURCES = [path for path in FILES if path.suffix in (".c", ".h") and path.is_relative_to(ROOT / "src")]


def name_of(path):
    return str(path.relative_to(ROOT))


def each(paths):
    return pytest.mark.parametrize("page", paths, ids=name_of)


def environment():
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SANDBOX_", "PLIMSOLL_", "LC_"))}
    return clean | {"LANG": "C", "PATH": f"{BIN}:{os.environ['PATH']}"}


# ---- quoted output ----

FENCE = re.compile(r"^```(?P<language>[\w ]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTED_BY = re.compile(r"^<!-- printed by: (?P<command>.+?) -->\n```\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = ((re.compile(r"\b[\d.]+( ?)ms\b"), r"N\1ms"), (re.compile(r"(\"duration_.s\": )\d+"), r"\1N"),
           (re.compile(r"(UnixMs\": )\"\d+\""), r"\1N"), (re.compile(r"\b[0-9a-f]{64}\b"), "DIGEST"))


def normalized(text):
    """Without what differs from run to run."""
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return text


def matches(quoted, real):
    """Is `real` what a page quotes? A line "..." stands for any number of lines."""
    parts = [re.escape(part) for part in re.split(r"^\.\.\.\n", normalized(quoted), flags=re.MULTILINE)]
    return re.fullmatch(r"(?:[^\n]*\n)*?".join(parts), normalized(real)) is not None


def commands_of(text):
    """The commands of a console block, each with the output that is quoted for it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, quoted = part.partition("\n")
        yield command, quoted


def run_in_order(commands, cwd=ROOT):
    """What each command prints, stdout and stderr together, in one shell."""
    mark = "--- next command ---"
    script = "".join(f"{command}\nstatus=$?; echo '{mark}'; (exit $status)\n" for command in commands)
    done = subprocess.run(["bash", "-c", "exec 2>&1\n" + script], cwd=cwd, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, env=environment(), timeout=120)
    return done.stdout.split(mark + "\n")[:-1]


QUOTES = [(page, match["text"]) for page in PAGES for match in FENCE.finditer(page.read_text())
          if match["language"] == "console"]


@pytest.mark.parametrize("page, text", QUOTES, ids=[f"{name_of(page)}-{i}" for i, (page, _) in enumerate(QUOTES)])
def test_quoted_commands_print_what_the_page_says(page, text):
    quoted = list(commands_of(text))
    for (command, expected), real in zip(quoted, run_in_order([c for c, _ in quoted]), strict=True):
        assert matches(expected, real), f"{command}\nprints\n{real}\nand the page says\n{expected}"


def test_there_are_quoted_commands():
    assert {name_of(page) for page, _ in QUOTES} >= {"README.md", "docs/getting-started.md", "docs/wasm.md"}


def test_quoted_program_output_is_real():
    found = [match for page in PAGES for match in PRINTED_BY.finditer(page.read_text())]
    assert found
    for match in found:
        real = subprocess.run(match["command"].split(), cwd=ROOT, check=True, capture_output=True, text=True,
                              env=environment()).stdout
        assert matches(match["text"], real), real


# ---- code samples ----


def compile_and_run(source, folder, arguments=(), stdin=subprocess.DEVNULL):
    (folder / "sample.c").write_text(source)
    library = ROOT / "build/lib"
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "include", "-I",
                    ROOT / "build/release/include", folder / "sample.c", "-o", folder / "sample", f"-L{library}", "-lplimsoll",
                    f"-Wl,-rpath,{library}"], check=True)
    return subprocess.run([folder / "sample", *arguments], check=True, stdin=stdin, stdout=subprocess.PIPE, text=True,
                          env=environment()).stdout


def test_the_sample_of_the_readme_prints_what_the_readme_says(tmp_path):
    blocks = list(FENCE.finditer((ROOT / "README.md").read_text()))
    at = next(i for i, block in enumerate(blocks) if block["language"] == "c")
    assert compile_and_run(blocks[at]["text"], tmp_path) == blocks[at + 1]["text"]


@pytest.fixture
def daemon(tmp_path):
    """A daemon as the page starts it, on a free port: its address and the file with the token."""
    env = environment() | {"PLIMSOLL_CLIENTS_FILE": "clients.json", "PLIMSOLL_ADDR": "127.0.0.1:0",
                           "PLIMSOLL_METRICS_ADDR": "off", "SANDBOX_PROVIDER": "wasm"}
    page = (ROOT / "docs/getting-started.md").read_text()
    create = next(block["text"] for block in FENCE.finditer(page) if "callers create" in block["text"])
    subprocess.run(["sh", "-e", "-c", create], cwd=tmp_path, check=True, env=environment())
    with subprocess.Popen([BIN / "plimsolld"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            listening = next(line for line in process.stderr if "plimsolld listening" in line)
            yield "http://" + re.search(r'"addr":"([^"]+)"', listening)[1], tmp_path / "token"
        finally:
            process.terminate()


def test_the_client_of_the_tutorial_prints_what_the_page_says(tmp_path, daemon):
    address, token = daemon
    blocks = list(FENCE.finditer((ROOT / "docs/getting-started.md").read_text()))
    at = next(i for i, block in enumerate(blocks) if "plim_sandbox_connect" in block["text"])
    with token.open() as stdin:
        assert compile_and_run(blocks[at]["text"], tmp_path, [address], stdin) == blocks[at + 1]["text"]


DAEMON_URL = "http://127.0.0.1:8746"


@each([page for page in PAGES if "```console daemon\n" in page.read_text()])
def test_quoted_commands_that_ask_a_daemon_print_what_the_page_says(page, daemon):
    address, token = daemon
    blocks = [block["text"] for block in FENCE.finditer(page.read_text()) if block["language"] == "console daemon"]
    for quoted in (list(commands_of(text)) for text in blocks):
        asked = [command.replace(DAEMON_URL, address) for command, _ in quoted]
        for (command, expected), real in zip(quoted, run_in_order(asked, token.parent), strict=True):
            assert matches(expected, real), f"{command}\nprints\n{real}\nand the page says\n{expected}"


@each([page for page in PAGES if "```sh run\n" in page.read_text()])
def test_blocks_that_a_page_marks_run(page, tmp_path):
    for block in FENCE.finditer(page.read_text()):
        if block["language"] == "sh run":
            subprocess.run(["sh", "-e", "-c", block["text"]], cwd=tmp_path, check=True, env=environment())


def test_the_program_in_the_header_prints_what_the_header_says(tmp_path):
    header = (ROOT / "include/plimsoll/plimsoll.h").read_text()
    program = re.search(r"The complete minimal program:\n \*\n(.*?)^ \* It prints `(.*?)`", header, re.DOTALL | re.MULTILINE)
    assert compile_and_run(re.sub(r"^ \* ?", "", program[1], flags=re.MULTILINE), tmp_path) == program[2] + "\n"


def test_examples_use_nothing_but_public_headers():
    for path in (ROOT / "examples").rglob("*.[ch]"):
        for header in re.findall(r'^\s*#\s*include\s+([<"].*[>"])', path.read_text(), re.MULTILINE):
            of_examples = (path.parent / header[1:-1]).resolve().is_relative_to(ROOT / "examples")
            assert header.startswith("<") or of_examples, f"{path}: {header}"
            assert not (ROOT / "src" / header[1:-1]).exists(), f"{path}: {header}"


# ---- links ----

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def without_code(text):
    return FENCE.sub("", text)


def anchors_of(path):
    """Anchors of a page, made from its headings as code hosts make them."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in HEADING.findall(without_code(path.read_text()))}


@each(PAGES)
def test_links_resolve(page):
    for target in LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", target):
            assert target.startswith("https://"), target
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists() and path.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors_of(path), target


@pytest.mark.parametrize("file, anchor", [("docs/run-results.md", "did-anything-run-the-error-says-so")])
def test_anchors_that_others_link_to_exist(file, anchor):
    assert anchor in anchors_of(ROOT / file)


def test_every_document_is_in_the_table_of_the_readme():
    linked = {(ROOT / target.partition("#")[0]).resolve() for target in LINK.findall((ROOT / "README.md").read_text())}
    assert [name_of(path) for path in DOCUMENTS if path not in linked and path.name != "README.md"] == []


# ---- generated text and settings ----


def test_generated_text_is_what_the_programs_print():
    done = subprocess.run([ROOT / "scripts/check-drift"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("file, command", [
    ("docs/command-line.md", "plimsoll help --markdown"),
    ("docs/configuration.md", "plimsoll help --settings-markdown"),
    ("AGENTS.md", "plimsoll help --settings-markdown"),
])
def test_pages_that_are_generated_have_their_block(file, command):
    assert f"<!-- generated by: {command} -->\n|" in (ROOT / file).read_text()


VARIABLE = re.compile(r"\b(?:SANDBOX|PLIMSOLL)_[A-Z0-9]+(?:_[A-Z0-9]+)*\b")
ROW = re.compile(r"^\| (`[A-Z_0-9`, ]+`) \|", re.MULTILINE)


def variables_of_tools():
    """Those that the page lists for the build and the tests."""
    page = (ROOT / "docs/configuration.md").read_text()
    rows = ROW.findall(page[page.index("\n## Settings of the build"):])
    return {name for row in rows for name in re.findall("[A-Z_0-9]+", row)}


def settings_in_source():
    return set(re.findall(r'^\s*X\(\w+, \w+, "([A-Z0-9_]+)"', (ROOT / "src/core/settings.h").read_text(), re.MULTILINE))


def test_the_program_prints_every_setting_of_the_table():
    printed = subprocess.run([BIN / "plimsoll", "help", "--settings-markdown"], check=True, capture_output=True, text=True)
    assert set(re.findall(r"^\| `([A-Z0-9_]+)`", printed.stdout, re.MULTILINE)) == settings_in_source()


def test_documents_name_no_variable_that_nobody_reads():
    known = settings_in_source() | variables_of_tools()
    for page in PAGES:
        assert set(VARIABLE.findall(page.read_text())) <= known, page


def test_sources_read_no_variable_that_is_not_in_the_table():
    for path in SOURCES:
        text = path.read_text()
        assert set(re.findall(r'"((?:SANDBOX|PLIMSOLL)_[A-Z0-9_]+)"', text)) <= settings_in_source(), path
        for argument in re.findall(r"\bgetenv\(([^)]*)\)", text):
            known = argument.strip('"') in settings_in_source()
            assert known or path == ROOT / "src/core/settings.c", f"{path} reads {argument}"


def test_variables_of_tools_are_read_by_tools():
    read_by = "".join(path.read_text() for path in [ROOT / "Makefile", *(ROOT / "scripts").iterdir(), ROOT / "tests/run"]
                      if path.is_file())
    for name in variables_of_tools():
        assert re.search(rf"\b{name}\b", read_by), name


# ---- dependencies ----


@pytest.mark.parametrize("folder", ["bin", "lib", "libexec"])
def test_every_library_that_is_linked_is_in_the_list(folder):
    page = (ROOT / "docs/dependencies.md").read_text()
    for file in (ROOT / "build" / folder).iterdir():
        shown = subprocess.run(["readelf", "-W", "-d", file], capture_output=True, text=True).stdout
        for library in re.findall(r"\(NEEDED\).*\[(lib[^\]]+?)\.so", shown):
            assert library in ("libc", "libm", "libpthread", "libplimsoll") or f"`{library}`" in page, (file, library)


def test_every_pinned_source_that_is_built_is_in_the_list():
    lock, page = (ROOT / "third_party/lock").read_text(), (ROOT / "docs/dependencies.md").read_text()
    build = "".join(path.read_text() for path in FILES if path.name == "meson.build")
    for name in re.findall(r"^name: (.+)$", lock, re.MULTILINE):
        assert name not in build or name in page, name


# ---- the daemon's page ----


def test_metrics_and_log_lines_are_those_of_the_source():
    page = (ROOT / "docs/daemon.md").read_text()
    metrics = set(re.findall(r"\bplimsoll_[a-z_]+", (ROOT / "src/daemon/metrics.h").read_text()))
    assert metrics and metrics <= set(re.findall(r"^\| `(plimsoll_[a-z_]+)`", page, re.MULTILINE))
    source = "".join(path.read_text() for path in (ROOT / "src/daemon").glob("*.c"))
    rows = re.findall(r"^\| (`.+?`) \| (?:INFO|WARN|ERROR) \|", page, re.MULTILINE)
    assert rows
    for message in re.findall("`([^`]+)`", " ".join(rows)):
        assert f'"{message}"' in source, message


# ---- numbers ----


def constant(file, name):
    value = re.search(rf"\b{name}\b\s*=?\s*(\d+)u?", (ROOT / file).read_text())
    return int(value[1])


def test_limits_of_wasm_are_those_of_the_source():
    provider, protocol = "src/providers/wasm/wasm.c", "src/providers/wasm/protocol.h"
    pages_per_mib = constant(provider, "PAGES_PER_MB")
    page = (ROOT / "docs/wasm.md").read_text()
    for row in (
        f"| deadline when the request names none, or 0 | {constant(provider, 'TIMEOUT_MS_DEFAULT') // 1000} s |",
        f"| longest deadline; a longer one is cut to it | {constant(provider, 'TIMEOUT_MS_CEILING') // 1000} s |",
        f"| memory of the guest | {constant(protocol, 'PLIM_WASM_PAGES_DEFAULT') // pages_per_mib} MiB, ",
        f"more counts as this | {constant(protocol, 'PLIM_WASM_PAGES_MAX') // pages_per_mib} MiB |",
        f"| kept of each stream | {constant('src/providers/wasm/run.h', 'WASM_OUTPUT_BYTES_MAX'):,} bytes |",
    ):
        assert row in page, row
    kept = f"{constant('src/providers/wasm/run.h', 'WASM_OUTPUT_BYTES_MAX'):,}"
    assert all(kept in (ROOT / f"docs/{name}.md").read_text() for name in ("run-results", "limitations"))


# ---- what a page may say ----


@each([page for page in DOCUMENTS if page.name != "README.md"])
def test_a_page_answers_first_and_then_links_to_the_readme(page):
    title, answer, link = [line for line in page.read_text().splitlines() if line][:3]
    assert title.startswith("# ")
    assert answer.endswith(".") and answer.count(". ") == 0, "one sentence on one line"
    assert "README.md)" in link


@each(DOCUMENTS)
def test_a_page_that_speaks_of_tiers_says_that_they_are_not_attestation(page):
    text = page.read_text()
    if re.search(r"\btiers?\b", text):
        assert re.search(r"not\s+attestation|Not claimed:\W+attestation", text)
        assert re.search(r"configuration,\s+(evidence|what\s+the\s+provider)", text)


def sentences(text):
    return re.split(r"(?<=[.!?])\s+|\n\n|\n(?=[-|*] )", text)


DENIAL = re.compile(r"\b(not|no|never|neither|nothing|none)\b", re.IGNORECASE)
TOO_STRONG = re.compile(r"hostile code|operating-system wall|virtual machine|escape-proof|unbreakable|bulletproof|fully isolat",
                        re.IGNORECASE)


@each(PAGES + SOURCES)
def test_wasm_is_never_called_fit_for_hostile_code(page):
    for sentence in sentences(page.read_text()):
        if TOO_STRONG.search(sentence) and "wasm" in sentence + name_of(page):
            assert DENIAL.search(sentence), sentence


@each(PAGES)
def test_nothing_ran_is_only_said_of_a_refusal(page):
    text = FENCE.sub("", page.read_text())
    assert not re.search(r"safe\s+to\s+(retry|repeat|send again)", text, re.IGNORECASE)
    for paragraph in re.split(r"\n\n|\n(?=[-|*])", text):
        if re.search(r"nothing\s+ran", paragraph, re.IGNORECASE):
            assert re.search(r"reason|mark|refus|promise|status|`125`|\b125\b", paragraph), paragraph


@each(PAGES)
def test_nothing_is_promised(page):
    found = re.search(r"not yet (released|implemented|available)|coming soon|roadmap|\bplanned\b|in a future|future version|"
                      r"later version|next release|will be (added|available|supported)|source checkout", page.read_text(),
                      re.IGNORECASE)
    assert not found, found


def test_the_status_is_stated_alike():
    for file in ("README.md", "SECURITY.md"):
        text = re.sub(r"\s+", " ", (ROOT / file).read_text())
        for words in ("before 1.0", "No independent firm has audited", "no external users"):
            assert words in text, (file, words)


# ---- what the security page says of the binaries ----


@pytest.mark.parametrize("file", ["build/bin/plimsoll", "build/lib/libplimsoll.so", "build/libexec/plimsoll-wasm-worker"])
def test_binaries_are_hardened_as_the_security_page_says(file):
    shown = subprocess.run(["readelf", "-W", "-h", "-l", "-d", ROOT / file], check=True, capture_output=True, text=True).stdout
    assert re.search(r"Type:\s+DYN", shown), "position-independent"
    assert "GNU_RELRO" in shown and re.search(r"\bBIND_NOW\b|FLAGS_1.*\bNOW\b", shown), "relocations bound at start"
    assert re.search(r"GNU_STACK.* RW ", shown), "no executable stack"


def test_objects_are_compiled_as_the_security_page_says():
    commands = (ROOT / "build/release/compile_commands.json").read_text()
    for option in ("-fstack-protector-strong", "-fstack-clash-protection", "-D_FORTIFY_SOURCE", "-ftrivial-auto-var-init=zero"):
        assert option in commands
