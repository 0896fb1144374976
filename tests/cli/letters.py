"""An executor for tests of the command line: no model, but a tokenizer of letters."""

import time

import attrs
from batchwright.plugin import hookimpl

from batchwright import ModelError
from batchwright.option import option
from batchwright.testing.executor import Options as ScriptedOptions
from batchwright.testing.executor import ScriptedExecutor


@attrs.frozen
class Options(ScriptedOptions):
    seconds: float = option(0.0, "What a step takes.", unit="seconds", ge=0)
    dies_at: int = option(0, "Plan from which on every one fails; 0: none.", ge=0)


class Letters:
    def encode(self, text):
        return [ord(letter) % 997 for letter in text]

    def encode_chat(self, messages):
        if any(message["role"] == "nobody" for message in messages):
            raise ModelError("the chat template refuses these messages: nobody")
        return self.encode("".join(f"<{m['role']}>{m['content']}" for m in messages))

    def decode(self, token_ids):
        return "".join(chr(97 + token % 26) for token in token_ids)


class LettersExecutor(ScriptedExecutor):
    name = "letters"
    Options = Options

    def load(self, settings):
        return attrs.evolve(
            super().load(settings), tokenizer=Letters(), attention="none", notes=("tiny",)
        )

    def execute(self, plan):
        time.sleep(self.options.seconds)
        if self.options.dies_at and self.num_executed >= self.options.dies_at:
            raise OSError("the machine is on fire")
        return super().execute(plan)


@hookimpl
def batchwright_register_executor():
    return [LettersExecutor]
