"""The audit log: whole, in order, and honest about what it lost."""

from __future__ import annotations

import errno
import io
import json
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kvant.child import free_port
from kvant.errors import ConfigError
from kvant.gateway.audit import files
from kvant.gateway.audit.log import AuditLog
from kvant.gateway.audit.verify import verify
from kvant.gateway.settings import Audit


def written(path: Path, count: int, **settings: int) -> AuditLog:
    log = AuditLog(Audit(file=path, **settings))
    for number in range(count):
        log.write({"id": f"r{number}", "text": "a\nb\u2028\x00\ud800" if number == 0 else "x" * 200})
    log.close()
    return log


def test_a_log_is_one_chain_over_restarts_and_files(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    written(path, 30, max_bytes=4096, keep=100)
    written(path, 30, max_bytes=4096, keep=100)
    found = verify(path)
    assert (found.first, found.last, found.wrong) == (1, 60, "")
    assert len(files.full(path)) >= 4
    assert all(line.isascii() for line in path.read_text().splitlines())
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_old_files_go_and_the_rest_is_still_a_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    written(path, 100, max_bytes=4096, keep=2)
    found = verify(path)
    assert len(files.full(path)) == 2
    assert found.wrong == ""
    assert found.first > 1
    assert found.last == 100


@pytest.mark.parametrize("how", ["changed", "deleted", "swapped", "inserted"])
def test_what_was_done_to_a_log_is_seen(tmp_path: Path, how: str) -> None:
    path = tmp_path / "audit.jsonl"
    written(path, 10)
    lines = path.read_bytes().splitlines(keepends=True)
    if how == "changed":
        lines[4] = lines[4].replace(b"r4", b"r9")
    elif how == "deleted":
        del lines[4]
    elif how == "swapped":
        lines[4], lines[5] = lines[5], lines[4]
    else:
        lines.insert(4, lines[2])
    path.write_bytes(b"".join(lines))
    assert f"{path}:5: " in verify(path).wrong


def test_a_line_cut_off_by_a_crash_is_removed_and_the_chain_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    written(path, 5)
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size - 20)
    written(path, 2)
    assert verify(path).wrong == ""
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == [1, 2, 3, 4, 5, 6]


def test_kill_9_leaves_a_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    program = (
        "import sys; from pathlib import Path\n"
        "from kvant.gateway.audit.log import AuditLog; from kvant.gateway.settings import Audit\n"
        "log = AuditLog(Audit(file=Path(sys.argv[1]), max_bytes=8192))\n"
        "while True: log.write({'text': 'y' * 500})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)])
    end = time.monotonic() + 30
    while not files.full(path):
        assert time.monotonic() < end
        time.sleep(0.01)
    process.kill()
    process.wait()
    written(path, 1)
    assert verify(path).wrong == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_loses_rows_and_says_so_later(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(Audit(file=path))
    log.write({"id": "before"})
    end = time.monotonic() + 5
    while not path.stat().st_size:
        assert time.monotonic() < end
    assert log._file is not None
    log._file.close()
    with Path("/dev/full").open("ab", buffering=0) as log._file:
        log.write({"id": "lost"})
        while not log.lost:
            assert time.monotonic() < end
    log.write({"id": "after"})
    log.close()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["id"], row.get("lost")) for row in rows] == [("before", None), ("after", 1)]
    assert verify(path).wrong == ""


def test_a_row_of_which_the_disk_took_a_part_is_lost_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(Audit(file=path))
    log.write({"id": "before"})
    end = time.monotonic() + 5
    while not path.stat().st_size:
        assert time.monotonic() < end
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
    try:
        log.write({"id": "lost"})
        while not log.lost:
            assert time.monotonic() < end
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    log.write({"id": "after"})
    log.close()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["id"], row.get("lost")) for row in rows] == [("before", None), ("after", 1)]
    assert verify(path).wrong == ""


def test_two_gateways_do_not_write_one_log(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    first = AuditLog(Audit(file=path))
    with pytest.raises(ConfigError, match="is written by another gateway"):
        AuditLog(Audit(file=path))
    first.close()
    written(path, 1)


def test_a_second_gateway_ends_with_this_one_line(tmp_path: Path) -> None:
    first = AuditLog(Audit(file=tmp_path / "audit.jsonl"))
    config = tmp_path / "gateway.yaml"
    config.write_text(
        f"audit: {{file: {tmp_path}/audit.jsonl}}\nrollout: {{state: {tmp_path}/rollout.db}}\n"
        f"listen: {{port: {free_port()}}}\n"
        "arms: {baseline: {urls: ['http://127.0.0.1:1']}, candidate: {urls: ['http://127.0.0.1:2']}}\n"
    )
    command = (sys.executable, "-c", "from kvant.cli import main; main()", "gateway", "-c", str(config))
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    first.close()
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: audit.file: ")


class Hanging(io.BytesIO):
    """A file of a disk that is gone, as a network may be."""

    def __init__(self) -> None:
        super().__init__()
        self.back = threading.Event()

    def write(self, _: object) -> int:
        self.back.wait(30)
        raise OSError(errno.EIO, "gone")


def test_a_disk_that_hangs_does_not_keep_the_gateway_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvant.gateway.audit.log.MAX_WAITING", 2)
    monkeypatch.setattr("kvant.gateway.audit.log.CLOSE_SECONDS", 0.1)
    log = AuditLog(Audit(file=tmp_path / "audit.jsonl"))
    assert log._file is not None
    log._file.close()
    log._file = disk = Hanging()
    while not log.lost:
        log.write({"id": "waits"})
    ending = threading.Thread(target=log.close, daemon=True)
    ending.start()
    ending.join(5)
    assert not ending.is_alive()
    disk.back.set()


def test_no_log_is_no_whole_log(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such audit log"):
        verify(tmp_path / "none.jsonl")
