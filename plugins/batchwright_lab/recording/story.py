"""The story of one request, from a decision log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from attrs import define, field

from batchwright_engine.text_table import aligned
from batchwright_lab.recording.spans import gist

if TYPE_CHECKING:
    from batchwright_plugins.observer.decision_trail import DecisionTrail

__all__ = ["Story", "tell_grants"]

_PAUSE = "pauses: its policy gives its seat to others, its blocks stay its own"


@define
class _Chapter:
    """Steps in a row in which the same was true.

    Args:
        first: The first of them.
        last: The last of them.
        why: Reason of its wait in the last of them; empty while it runs.
        begin: Circumstances of its admission; empty while it waits.
        work: Kind of the first work: ``prefill`` or ``recompute``.
        grants: New tokens and scheduled tokens, one entry a step.
        num_left_out: Steps in which it ran without scheduled tokens.
    """

    first: int
    last: int
    why: str = ""
    begin: str = ""
    work: str = "prefill"
    grants: list[tuple[int, int]] = field(factory=list)
    num_left_out: int = 0

    def __str__(self) -> str:
        if not self.begin:
            count = self.last - self.first + 1
            return f"waits {count} step{'s' * (count > 1)}: {self.why}"
        told = f"{self.begin}; {tell_grants(self.grants, self.work)}"
        if self.num_left_out:
            told += f"; no tokens in {self.num_left_out} of these steps"
        return told


@define
class Story:
    """Follow one request through a log.

    Args:
        request_id: Its id.

    Attributes:
        is_known: True if the log has it so far.
    """

    request_id: str
    is_known: bool = False
    _lines: list[tuple[str, str]] = field(init=False, factory=list)
    _chapter: _Chapter | None = field(init=False, default=None)
    _has_run: bool = field(init=False, default=False)
    _is_over: bool = field(init=False, default=True)
    _paused: bool = field(init=False, default=False)

    def read(self, trail: DecisionTrail) -> None:
        """Take in what the last line says."""
        me = self.request_id
        if me in trail.finished and not self._is_over:
            reason, detail = trail.finished[me]
            self._close()
            self._say(trail.step, f"ends: {reason} ({detail})")
            self._is_over = True
        if me in trail.added:
            self._arrive(trail)
        if not trail.is_step or self._is_over or trail.step is None:
            return
        if me in trail.preempted:
            self._yield(trail.step, trail.preempted[me])
        if me in trail.waiting:
            self._wait(trail.step, trail.why(me))
        elif me in trail.running:
            self._run(trail.step, trail)

    def lines(self) -> Iterator[str]:
        """The story so far, one event a line."""
        told = [*self._lines]
        if self._chapter is not None:
            told.append(_told(self._chapter))
        yield from aligned(told)

    def _arrive(self, trail: DecisionTrail) -> None:
        num_prompt, num_output, time = trail.added[self.request_id]
        step = trail.step if trail.is_step else None
        self._say(
            step,
            f"arrives at {time:g} s with {num_prompt} prompt tokens, for at most {num_output} "
            "output tokens",
        )
        self.is_known, self._is_over, self._has_run = True, False, False

    def _yield(self, step: int, needy: str | None) -> None:
        self._close()
        if needy is None:
            text = "gives up its blocks: its policy wants it, or it was paused and they ran out"
        elif needy == self.request_id:
            text = "gives up its blocks: there is none for its own next tokens"
        else:
            text = f"gives up its blocks: request {needy!r} needs some"
        self._say(step, text)
        self._paused = False

    def _wait(self, step: int, why: str) -> None:
        chapter = self._chapter
        if chapter is not None and chapter.begin:
            self._close()
            self._paused = "(executor)" not in why
            self._say(step, _PAUSE if self._paused else "is to be computed again")
            chapter = None
        if chapter is None or gist(chapter.why) != gist(why):
            self._close()
            self._chapter = chapter = _Chapter(step, step)
        chapter.last, chapter.why = step, why

    def _run(self, step: int, trail: DecisionTrail) -> None:
        me = self.request_id
        if me in trail.admitted:
            self._close()
            hit = trail.admitted[me]
            what = "kept" if self._paused else "cached"
            begin = f"{'resumes' if self._has_run else 'is admitted'} with {hit} tokens {what}"
            work = "recompute" if self._has_run else "prefill"
            self._chapter = _Chapter(step, step, begin=begin, work=work)
            self._has_run, self._paused = True, False
        if self._chapter is None:  # it ran before the log began
            self._chapter = _Chapter(step, step, begin="runs")
        self._chapter.last = step
        if me in trail.grants:
            self._chapter.grants.append((trail.owed.get(me, 1), trail.grants[me]))
        else:
            self._chapter.num_left_out += 1

    def _close(self) -> None:
        if self._chapter is not None:
            self._lines.append(_told(self._chapter))
        self._chapter = None

    def _say(self, step: int | None, what: str) -> None:
        self._lines.append(("" if step is None else f"step {step}", what))


def tell_grants(grants: list[tuple[int, int]], work: str = "prefill") -> str:
    """Return scheduled tokens in a row, e.g. ``prefill 512+512+2, then 37 decodes``.

    Args:
        grants: New tokens and scheduled tokens, one entry a step.
        work: Name of the work until all known tokens are computed.
    """
    index = next((i for i, (owed, grant) in enumerate(grants) if grant >= owed), len(grants))
    chunks, decodes = grants[: index + 1], grants[index + 1 :]
    if not chunks:
        return "nothing scheduled yet"
    if chunks == [(1, 1)]:
        chunks, decodes = [], grants
    told = [f"{work} {'+'.join(str(grant) for _, grant in chunks)}"] if chunks else []
    if decodes:
        num_tokens = sum(grant for _, grant in decodes)
        steps = f"{len(decodes)} decode{'s' * (len(decodes) > 1)}"
        drafts = f" of {num_tokens} tokens" if num_tokens != len(decodes) else ""
        told.append(steps + drafts)
    return ", then ".join(told)


def _told(chapter: _Chapter) -> tuple[str, str]:
    first, last = chapter.first, chapter.last
    return f"step {first}" if first == last else f"steps {first}-{last}", str(chapter)
