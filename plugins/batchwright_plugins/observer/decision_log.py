"""Write down every decision, one JSON line a step."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from attrs import frozen

from batchwright.exceptions import ConfigError
from batchwright.option import option
from batchwright.protocols import Observer
from batchwright_plugins.files import files_taken, prepare_output
from batchwright_plugins.observer.decision_trail import FORMAT, VERSION
from batchwright_plugins.observer.replay_record import Contents, Written, deciding, fields_of

if TYPE_CHECKING:
    from batchwright.context import Context
    from batchwright.messages import StepOutputs
    from batchwright.request_view import RequestView
    from batchwright.step_record import StepRecord

__all__ = ["DecisionLog"]


@frozen
class Options:
    """Options of the decision log."""

    path: str = option(
        "decisions.jsonl", "Output file, relative to the TOML file; an old one is replaced."
    )
    flush: bool = option(False, "True to write each line to disk before the next step.")
    block_ids: bool = option(False, "True to list blocks by id instead of their number.")
    replay: bool = option(True, "True to write the data for `batchwright replay`, too.")


class DecisionLog(Observer):
    """Decisions of each step with their reasons, as JSON lines: equal runs write equal bytes.

    The first line names the format, its version, the sizes of the run, and ``config``: the
    options that affect decisions, without defaults; ``folder`` is the start of its paths, seen
    from the log. Then comes one line a step; keys that would be empty are left out:

    - ``step``, ``time`` (seconds on the scheduler's clock), ``budget``, ``tokens``
    - ``done``: ``[step, time]`` of each step whose results came since the line before; left out
      if that is the last step, done at this line's time
    - ``added``: by request, ``[prompt tokens, most output tokens, arrival time, fields]``;
      ``fields`` are those of the request that were given, and ``contents``
    - ``finished``: by request, ``[reason, detail, output tokens, contents]``; ended since
      the line before
    - ``admitted``: by request, tokens that the prefix cache held of it; in order of
      admission. ``resumed``: those among them that had been preempted
    - ``scheduled``: by request, ``[new tokens, scheduled tokens, new blocks]``; of visited requests
    - ``decode_batch``: number of requests of the decode batch, with one scheduled token each: all
      running requests except those in ``scheduled`` and in ``left_out``
    - ``blocks``: by request of the decode batch, new blocks
    - ``left_out``: running requests without scheduled tokens
    - ``preempted``: by request, the one that needed its blocks
    - ``waits``: by request, why it waits, if that changed; empty: in the queue again
    - ``stop``: ``[request or null, why]``: the end of the scan of waiting requests, if that
      changed; null: none was held back. Requests without a reason of their own wait behind it.
    - ``running``, ``waiting``, ``parked`` (of those waiting), ``free`` (blocks)

    A line without ``step`` has only requests that were added and finished meanwhile: at the
    end, and if a request did both between two steps. A step costs its changes, not its waiting
    requests. ``decision_trail`` reads it back.

    ``contents`` stands for full blocks of tokens, 8 characters each: equal for prefixes that
    are equal, so that a replay has the hits of the run; no token can be read from it. Behind
    ``added`` it is the prompt's, behind ``finished`` that of the blocks filled since.
    """

    name = "decision-log"
    Data = Written
    Options = Options

    def __init__(self, options: Any, ctx: Context) -> None:
        super().__init__(options, ctx)
        self._file: IO[str] | None = None
        self._added: dict[str, list[Any]] = {}
        self._finished: dict[str, list[Any]] = {}
        self._done: list[tuple[int, float]] = []
        self._undone: int | None = None
        self._stop: list[str | None] | None = None
        self._num_lines = 0

    def setup(self) -> None:
        """Open the file.

        Raises:
            ConfigError: It cannot be written.
        """
        path = self.ctx.folder / Path(self.options.path).expanduser()
        defaults = {self.name: Options().path}
        taken = files_taken(self.ctx.config, but=self.ctx.path, defaults=defaults)
        prepare_output(path, taken, option=f"{self.ctx.path}.path")
        try:
            self._file = path.open("w", encoding="utf-8", errors="replace", newline="\n")
        except OSError as error:
            raise ConfigError(
                f"cannot be written: {error.strerror}: {path}", path=f"{self.ctx.path}.path"
            ) from error
        limits = self.ctx.sizes
        self._contents = Contents(limits.block_size) if limits.enable_prefix_caching else None
        self._write(
            {
                "format": FORMAT,
                "version": VERSION,
                "block_size": limits.block_size,
                "num_usable_blocks": self.ctx.view.num_usable_blocks,
                "max_num_seqs": limits.max_num_seqs,
                "max_num_batched_tokens": limits.max_num_batched_tokens,
                "max_model_len": limits.max_model_len,
                **self._replay_header(path),
            }
        )

    def _replay_header(self, path: Path) -> dict[str, Any]:
        config = self.ctx.config
        if config is None or not self.options.replay:
            return {}
        folder = os.path.relpath(config.base_path.resolve(), path.resolve().parent)
        return {"config": deciding(config, self.ctx.sizes), "folder": folder.replace(os.sep, "/")}

    def close(self) -> None:
        if self._file is None:
            return
        self._write_events()
        self._file.close()
        self._file = None

    def flush(self) -> None:
        """Write the events since the last step, and all lines to disk."""
        if self._file is not None:
            self._write_events()
            self._file.flush()

    def summary(self) -> dict[str, object]:
        """Return the path of the log, and its length."""
        return {"path": self.options.path, "lines": self._num_lines}

    def on_add(self, request: RequestView) -> None:
        if request.request_id in self._finished:
            self._write_events()  # an id is used again: what came first stays first
        self._added[request.request_id] = [
            request.num_prompt_tokens,
            request.max_tokens,
            request.arrival_time,
        ]
        if self.options.replay:
            fields = fields_of(request)
            if self._contents is not None:
                contents = self._contents.of_prompt(request, self.ctx.data(request))
                fields |= {"contents": contents} if contents else {}
            self._added[request.request_id] += [fields] if fields else []

    def on_finish(self, request: RequestView) -> None:
        assert request.finish is not None
        finish = request.finish
        if request.request_id in self._added:
            self._write_events()
        end = self._finished[request.request_id] = [finish.reason, finish.detail]
        if self.options.replay:
            end.append(request.num_output_tokens)
            if self._contents is not None:
                contents = self._contents.of_outputs(request, self.ctx.data(request))
                end += [contents] if contents else []

    def on_outputs(self, outputs: StepOutputs) -> None:
        self._done.append((outputs.step_id, self.ctx.clock.now()))

    def on_step(self, record: StepRecord) -> None:
        view = record.view
        line = {
            "step": record.plan.step_id,
            "time": view.now,
            "budget": record.budget,
            "tokens": record.plan.total_num_scheduled_tokens,
            **self._take_done(view.now),
            **self._take_events(),
            **self._decisions(record),
            "running": view.num_running,
            "waiting": view.num_waiting,
            "parked": view.num_parked,
            "free": view.num_free_blocks,
        }
        self._undone = record.plan.step_id
        self._write(line)

    def _take_done(self, now: float) -> dict[str, Any]:
        """Steps that were done since the last line, unless it is what a reader expects."""
        done, self._done = self._done, []
        expected = [] if self._undone is None else [(self._undone, now)]
        self._undone = None
        return {} if done == expected else {"done": done}

    def _write_events(self) -> None:
        """Write a line between steps."""
        events = self._take_events()
        if events:
            now = self.ctx.clock.now()
            self._write({"time": now, **self._take_done(now), **events})

    def _take_events(self) -> dict[str, Any]:
        events = {"added": self._added, "finished": self._finished}
        self._added, self._finished = {}, {}
        return {key: value for key, value in events.items() if value}

    def _decisions(self, record: StepRecord) -> dict[str, Any]:
        """Return the decisions, without empty ones."""
        plan, visited = record.plan, record.visited
        grants, resumed = (plan.num_scheduled_tokens, plan.scheduled_cached_reqs.resumed_req_ids)
        hits = {
            request.request_id: request.num_computed_tokens - grants[request.request_id]
            for request in record.admitted
        }
        decisions: dict[str, Any] = {
            "admitted": hits,
            "resumed": resumed,
            "scheduled": {
                key: [num_new_tokens, grants[key], self._new_blocks(record, key, hits.get(key, 0))]
                for key, num_new_tokens in visited.items()
            },
            "decode_batch": record.num_batched,
            "blocks": {
                key: self._new_blocks(record, key, 0)
                for key in record.new_blocks
                if key not in visited
            },
            "left_out": self._left_out(record),
            "preempted": {key: record.preempted_for.get(key) for key in plan.preempted_req_ids},
            "waits": dict(record.waiting_reasons),
        }
        changed = {key: value for key, value in decisions.items() if value}
        return changed | self._stopped(record)

    def _new_blocks(self, record: StepRecord, request_id: str, hit: int) -> int | list[int]:
        """Blocks taken for a request in this step: those behind its hit."""
        table = record.new_blocks.get(request_id, [])
        new = table[hit // self.ctx.sizes.block_size :]
        return new if self.options.block_ids else len(new)

    def _left_out(self, record: StepRecord) -> list[str]:
        grants = record.plan.num_scheduled_tokens
        if len(grants) == record.view.num_running:
            return []
        return [r.request_id for r in record.view.running if r.request_id not in grants]

    def _stopped(self, record: StepRecord) -> dict[str, Any]:
        request_id, reason = record.stopped_by
        stop = [request_id, reason] if reason else None
        if stop == self._stop:
            return {}
        self._stop = stop
        return {"stop": stop}

    def _write(self, line: dict[str, Any]) -> None:
        assert self._file is not None, "setup() was called"
        text = json.dumps(line, separators=(",", ":"), ensure_ascii=False, default=str)
        self._file.write(f"{text}\n")
        self._num_lines += 1
        if self.options.flush:
            self._file.flush()
