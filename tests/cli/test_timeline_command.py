"""``batchwright timeline``: traces that are well formed, and pictures."""

from __future__ import annotations

import json
import random
import re
import struct
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import vl_convert
from click.testing import CliRunner, Result

from batchwright.assembly import scheduler_from_config
from batchwright.clock import VirtualClock
from batchwright.protocols import SchedulingPolicy
from batchwright.testing import Driver, drive, fakes, make_plugin, make_request
from batchwright.verdicts import Preempt
from batchwright_cli.main import main
from batchwright_lab.recording.spans import Span, Spans
from batchwright_plugins.observer.decision_trail import follow

SVG = "{http://www.w3.org/2000/svg}"


def timeline(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["timeline", *map(str, arguments)])


def make_scheduler(path: Path, *, plugins: Any = (fakes,), **sections: Any) -> Any:
    config = {
        "kv": {"num_blocks": 14},
        "observer": [{"use": "decision-log", "path": str(path)}],
        **sections,
    }
    return scheduler_from_config(config, clock=VirtualClock(), plugins=plugins)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Five requests, a second a step; D is preempted for C at 3 s, then for itself."""
    path = tmp_path / "decisions.jsonl"
    scheduler = make_scheduler(path)
    first = [make_request("A", 31, 40), make_request("B", 30, 40), make_request("C", 30, 40)]
    drive(scheduler, {0: [*first, make_request("E", 8, 4)], 1: [make_request("D", 60, 20)]})
    scheduler.close()
    return path


def spans_of(log: Path) -> list[Span]:
    """All spans of a log that are over, in the order in which they ended."""
    lines = Spans().of(follow(log.read_text("utf-8").splitlines()))
    return [e for events in lines for e in events if isinstance(e, Span) and e.end is not None]


def told(log: Path, request_id: str) -> list[tuple[Any, ...]]:
    return [(s.kind, s.begin, s.end) for s in spans_of(log) if s.request_id == request_id]


def test_spans_tell_what_a_request_did(log: Path) -> None:
    assert told(log, "D")[:6] == [
        ("prefill", 1.0, 2.0),
        ("decode", 2.0, 3.0),
        ("preempted", 3.0, 4.0),
        ("recompute", 4.0, 5.0),
        ("decode", 5.0, 7.0),
        ("preempted", 7.0, told(log, "D")[5][2]),
    ]
    spans = [s for s in spans_of(log) if s.request_id == "D"]
    assert spans[2].reason == "request 'C' needed its blocks"
    assert spans[5].reason == "no block for its own next tokens"
    assert [s.num_tokens for s in spans[:5]] == [60, 1, 0, 14, 2]


def test_spans_of_chunks_queues_and_those_left_out(tmp_path: Path) -> None:
    """A prompt of 40 in chunks of 16; a wait has its cause; without tokens it stalls."""
    path = tmp_path / "log"
    scheduler = make_scheduler(path, scheduler={"max_num_batched_tokens": 16, "max_num_seqs": 2})
    drive(scheduler, [make_request("long", 40, 5), make_request("late", 8, 2)])
    scheduler.close()
    assert told(path, "long")[:4] == [
        ("prefill", 0.0, 1.0),
        ("prefill", 1.0, 2.0),
        ("prefill", 2.0, 3.0),
        ("decode", 3.0, 7.0),
    ]
    assert told(path, "late")[0] == ("queued", 0.0, 2.0)


class Yields(SchedulingPolicy):
    """A policy that pauses all running requests, once, at step 2."""

    name = "yields"

    def running_to_preempt(self, view):
        if view.step_id == 2:
            yield Preempt(next(iter(view.running)), keep_blocks=True)


def test_spans_of_a_pause(tmp_path: Path) -> None:
    path = tmp_path / "log"
    scheduler = make_scheduler(
        path,
        plugins=(make_plugin(policy=[Yields]),),
        scheduler={"policy": "yields", "max_num_seqs": 1},
    )
    drive(scheduler, {0: [make_request("A", 10, 6)], 2: [make_request("B", 10, 2)]})
    scheduler.close()
    assert [kind for kind, _, _ in told(path, "A")] == ["prefill", "decode", "paused", "decode"]
    assert told(path, "A")[2][1:] == (2.0, 4.0)


def trace_of(log: Path) -> list[dict[str, Any]]:
    output = log.with_suffix(".trace.json")
    result = timeline(log, "--perfetto", output)
    assert result.exit_code == 0, result.output
    text = output.read_text("utf-8")
    assert not re.search(r'"ts":(?!\d+\.\d{1,3},)', text)  # nanoseconds
    events = json.loads(text, parse_constant=pytest.fail)["traceEvents"]
    assert f"{len(events):,} events" in result.output
    return events


def check(events: list[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """Slices match and do not nest, time does not run back, every track has a name of its own.

    Returns:
        Slices by track.
    """
    last = 0.0
    open_slices: dict[tuple[int, int], str] = {}
    count: dict[tuple[int, int], int] = {}
    named = {"process_name": set(), "thread_name": set()}
    process_of: dict[int, int] = {}
    for event in events:
        track = event["pid"], event["tid"]
        assert process_of.setdefault(event["tid"], event["pid"]) == event["pid"]
        assert event["ts"] >= last
        last = event["ts"]
        match event["ph"]:
            case "M":
                if event["name"] in named:
                    named[event["name"]].add(track if event["name"] == "thread_name" else track[0])
            case "B":
                assert track not in open_slices, event
                assert track in named["thread_name"]
                assert track[0] in named["process_name"]
                open_slices[track] = event["name"]
            case "E":
                del open_slices[track]
                count[track] = count.get(track, 0) + 1
            case "C":
                assert track in named["thread_name"]
                assert all(type(count) is int and count >= 0 for count in event["args"].values())
            case "i":
                assert event["s"] == "t"
            case other:
                pytest.fail(f"no event is a {other!r}")
    assert open_slices == {}
    return count


def test_trace_is_well_formed(log: Path) -> None:
    events = trace_of(log)
    slices = check(events)
    names = [e["args"]["name"] for e in events if e.get("name") == "thread_name"]
    assert names == ["steps", "request A", "request B", "request C", "request E", "request D"]
    num_steps = sum('"step"' in line for line in log.read_text().splitlines())
    assert slices[1, 1] == num_steps
    counters = {(e["name"], *e["args"]) for e in events if e["ph"] == "C"}
    assert counters == {
        ("requests", "running", "waiting"),
        ("KV blocks", "used"),
        ("step", "tokens"),
    }
    ends = [e["name"] for e in events if e["ph"] == "i"]
    assert sorted(ends) == ["length (max_tokens)"] * 5
    reasons = [e["args"].get("reason") for e in events if e.get("name") == "preempted"]
    assert reasons[0] == "request 'C' needed its blocks"


@pytest.mark.parametrize("seed", range(6))
def test_trace_of_whatever_happens_is_well_formed(tmp_path: Path, seed: int) -> None:
    """Gates, parks, aborts, shortages, ids used again, steps with nothing in them."""
    scheduler = make_scheduler(
        tmp_path / "log",
        gate=[{"use": "hint"}, {"use": "full-need"}],
        scheduler={"max_num_seqs": 4, "max_num_batched_tokens": 32},
        kv={"num_blocks": 20, "block_size": 4},
    )
    draw, driver = random.Random(f"trace/{seed}"), Driver(scheduler)
    for step in range(60):
        for _ in range(draw.choice([0, 0, 1, 2]) if step < 40 else 0):
            hints = draw.choice([{}, {}, {"park": "x"}, {"skip": "y"}, {"hold": 3}])
            name = f"r{draw.randrange(6)}"
            if name not in scheduler.requests and name not in scheduler.view.unreported_ends:
                request = make_request(name, draw.randint(1, 30), draw.randint(1, 30), hints=hints)
                driver.add(request)
        if draw.random() < 0.1:
            scheduler.signal("x")
        if scheduler.requests and draw.random() < 0.2:
            driver.abort(draw.choice(list(scheduler.requests)))
        driver.turn()
    scheduler.close()
    check(trace_of(tmp_path / "log"))


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """Of requests that have ended nothing is kept, and of spans only those at hand."""
    scheduler = make_scheduler(tmp_path / "log", kv={"num_blocks": 100})
    driver = Driver(scheduler)
    for number in range(300):
        driver.add(make_request(f"r{number}", 5, 2))
        driver.turn()
    scheduler.close()
    spans = Spans()
    with (tmp_path / "log").open(encoding="utf-8") as file:
        most = max(len(spans._live) + len(spans._untold) for _ in spans.of(follow(file)))
    assert most <= 4


def drawn(log: Path, *arguments: object) -> ET.Element:
    output = log.with_suffix(".svg")
    result = timeline(log, "--svg", output, *arguments)
    assert result.exit_code == 0, result.output
    return ET.parse(output).getroot()


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_picture_has_a_row_a_request_a_legend_and_an_axis_in_seconds(log: Path) -> None:
    root = drawn(log)
    found = texts(root)
    assert [text for text in found if text.startswith("fcfs: steps 0 to ")] != []
    assert [text for text in found if text in [*"ABCDE"]] == ["A", "B", "C", "E", "D"]
    assert {"prefill, a chunk a step", "decodes", "preempted, waits", "first token"} <= {*found}
    assert "seconds" in found
    titles = [element.text or "" for element in root.iter(f"{SVG}title")]
    assert "prefill, 1 to 2 s, 60 tokens" in titles
    assert "preempted, 3 to 4 s, request 'C' needed its blocks" in titles


def test_window_in_steps_or_seconds_cuts(log: Path) -> None:
    """D prefills in step 1, and decodes in step 2."""
    for window in (("--steps", "1:2"), ("--seconds", "1:3")):
        root = drawn(log, *window)
        titles = [element.text or "" for element in root.iter(f"{SVG}title")]
        assert "prefill, 1 to 2 s, 60 tokens" in titles
        assert not [title for title in titles if title.startswith("preempted")]
        assert "fcfs: steps 1 to 2" in texts(root)


def test_rows_that_are_too_many_are_counted(log: Path) -> None:
    found = texts(drawn(log, "--rows", 2))
    assert "seconds; 3 more requests are not drawn" in found


def test_bars_lie_where_their_seconds_do(log: Path) -> None:
    for window in ((), ("--steps", "2:4"), ("--seconds", "0.5:3.25")):
        bars = bars_of(drawn(log, *window))
        assert bars
        assert all(0 <= begin <= begin + width <= 1040 for begin, width in bars.values())
    bars = bars_of(drawn(log, "--seconds", "1:3"))
    assert bars["prefill, 1 to 2 s, 60 tokens"] == (0.0, 520.0)
    assert bars["decode, 2 to 3 s, 1 tokens"] == (520.0, 520.0)


def bars_of(root: ET.Element) -> dict[str, tuple[float, float]]:
    """Begin and width of each bar (px), by what it says."""
    found = {}
    for element in root.iter(f"{SVG}path"):
        match = re.match(r"M([\d.]+),[\d.]+h([\d.]+)v", element.get("d", ""))
        title = element.findtext(f"{SVG}title")
        if match is not None and title is not None:
            found[title] = float(match[1]), float(match[2])
    return found


def test_kinds_differ_by_pattern_where_there_is_no_colour(log: Path) -> None:
    root = drawn(log)
    patterns = {element.get("id") for element in root.iter(f"{SVG}pattern")}
    fills = {element.get("fill") for element in root.iter(f"{SVG}path")}
    assert {"queued", "preempted", "recompute"} <= patterns
    assert {"url(#preempted)", "url(#recompute)", "#0072b2", "#8fd0bb"} <= fills


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "say what to write: --perfetto, --svg, --png or --pdf"),
        (("--svg", "x.svg", "--steps", "0:1", "--seconds", "0:1"), 2, "say the same"),
        (("--svg", "x.svg", "--steps", "5"), 2, "expected A:B with 0 <= A <= B"),
        (("--svg", "x.svg", "--steps", "5:2"), 2, "expected A:B with 0 <= A <= B"),
        (("--svg", "x.svg", "--seconds", "a:b"), 2, "expected A:B with 0 <= A <= B"),
        (("--svg", "x.svg", "--steps", "900:"), 2, "nothing happens in that window: the log has"),
        (("--svg", "x.svg", "--seconds", "900:"), 2, "nothing happens in that window"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    log: Path, arguments: tuple[str, ...], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(log.parent)
    result = timeline(log, *arguments)
    assert result.exit_code == code
    assert said in result.output
    assert not (log.parent / "x.svg").exists()


@pytest.mark.parametrize("option", ["--perfetto", "--svg"])
def test_what_is_no_log_is_refused(tmp_path: Path, option: str) -> None:
    (tmp_path / "log").write_text("hello\n")
    result = timeline(tmp_path / "log", option, tmp_path / "out")
    assert result.exit_code == 2
    assert "is no decision log" in result.output
    assert not (tmp_path / "out").exists()


def test_a_last_line_that_is_cut_is_left_out(log: Path) -> None:
    log.write_text(log.read_text()[:-30])
    check(trace_of(log))


@pytest.mark.parametrize("option", ["--svg", "--png", "--pdf"])
def test_picture_without_its_package_names_the_extra(
    log: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = timeline(log, option, log.parent / "out", "--perfetto", log.parent / "out.json")
    assert result.exit_code == 1
    assert f"no {option} without vl-convert-python" in result.output
    assert "pip install -e '.[lab]'" in result.output
    assert [path for path in log.parent.iterdir() if path.name.startswith("out")] == []


def test_png_is_the_drawing_at_twice_its_size_with_its_words(log: Path) -> None:
    output = log.parent / "out"
    pictures = {f"--{kind}": output.with_suffix(f".{kind}") for kind in ("svg", "png", "pdf")}
    result = timeline(log, *(word for pair in pictures.items() for word in pair))
    assert result.exit_code == 0, result.output
    png = pictures["--png"].read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    drawing = pictures["--svg"].read_text()
    width, height = re.search(r'width="(\d+)" height="(\d+)"', drawing).groups()
    assert struct.unpack(">II", png[16:24]) == (2 * int(width), 2 * int(height))
    wordless = re.sub(r"<text.*?</text>", "", drawing)
    assert png != vl_convert.svg_to_png(wordless, scale=2.0)
    assert pictures["--pdf"].read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize("option", ["--perfetto", "--svg", "--png", "--pdf"])
def test_the_log_is_not_drawn_over(log: Path, option: str) -> None:
    before = log.read_bytes()
    (log.parent / "link").symlink_to(log)
    for output in (log, log.parent / "link"):
        result = timeline(log, option, output)
        assert result.exit_code == 2
        assert f"{output} is the decision log, which is read" in result.output
    assert log.read_bytes() == before


def test_a_file_is_written_whole_or_not_at_all(log: Path) -> None:
    """Damage in the middle of the log leaves what was there before."""
    output = log.parent / "out.json"
    output.write_text("old")
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([*lines[:5], "{\n", *lines[5:]]))
    result = timeline(log, "--perfetto", output)
    assert result.exit_code == 2
    assert f"{log}:6: is no JSON; the log is damaged" in result.output
    assert output.read_text() == "old"
    assert sorted(path.name for path in log.parent.iterdir()) == [log.name, "out.json"]


def test_a_log_without_steps_has_nothing_to_draw(log: Path) -> None:
    log.write_text(log.read_text().splitlines()[0] + "\n")
    result = timeline(log, "--svg", log.parent / "out.svg")
    assert "nothing happens in that window: the log has no step" in result.output
