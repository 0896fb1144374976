"""``batchwright config`` shows and checks configurations, and starts nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from batchwright.config import Config
from batchwright.config.sections import section_types
from batchwright_cli.main import CommandGroup, main
from batchwright_cli.reference.configuration import render_reference
from batchwright_lab.configuration.option_docs import document_options
from batchwright_lab.configuration.rendering import render_config

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def config(*arguments: str) -> Result:
    group = CommandGroup("batchwright", params=main.params, callback=main.callback)
    return CliRunner().invoke(group, ["config", *arguments])


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text('[scheduler]\npolicy = "priority"\n[run]\nprompts = "prompts.txt"\n')
    (tmp_path / "prompts.txt").write_text("hello\n")
    return path


# show


def test_show_writes_every_value_in_effect(toml):
    shown = tomllib.loads(config("show", str(toml), "-o", "kv.block_size=8").output)

    assert shown["scheduler"]["policy"] == "priority"
    assert shown["scheduler"]["max_num_seqs"] == 256
    assert shown["kv"]["block_size"] == 8


def test_show_has_the_options_of_the_components_in_effect(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('[[gate]]\nuse = "watermark"\nneed = "step"\n[[limit]]\nuse = "nowhere"\n')

    shown = tomllib.loads(config("show", str(path)).output)

    assert shown["gate"] == [{"use": "watermark", "fraction": 0.01, "need": "step"}]
    assert shown["limit"] == [{"use": "nowhere"}]
    assert "watermark" not in config("show").output


def test_show_without_a_file_writes_the_defaults():
    shown = Config.from_dict(tomllib.loads(config("show").output))

    assert attrs.evolve(shown, options={}) == Config()
    assert shown.options == {
        "executor": {"torch": {"device": "auto"}},
        "estimator": {"linear": {"profile": "rtxpro6000-llama3.1-8b", "overhead": 0.0}},
    }


def test_show_defaults_is_a_configuration_of_defaults():
    text = config("show", "--defaults").output

    assert Config() == Config.from_dict(tomllib.loads(text))


@pytest.mark.parametrize("section", section_types())
def test_show_defaults_documents_every_option(section):
    text = config("show", "--defaults").output
    block = text.partition(f"[{section}]\n")[2].partition("\n\n")[0]

    for doc in document_options(section_types()[section]):
        assert doc.help, f"{section}.{doc.name} is not documented"
        assert f"\n{doc.name} = {doc.default_toml}" in block or f"# {doc.name} =" in block


def test_show_defaults_has_the_options_of_components():
    text = config("show", "--defaults").output

    assert '# [[gate]]\n# use = "watermark"\n' in text
    assert "# fraction = 0.01" in text


def test_show_defaults_takes_no_file(toml):
    result = config("show", "--defaults", str(toml))

    assert result.exit_code == 2
    assert "--defaults takes neither FILE nor -o" in result.stderr


# check


def test_check_accepts_and_says_what_was_chosen(toml):
    result = config("check", str(toml))

    assert result.exit_code == 0
    assert result.output.startswith(f"{toml}: valid (scheduler unified, policy priority, ")
    assert "gate full-need" in result.output


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("scheduler.polcy=x", "scheduler.polcy: unknown option. Did you mean 'policy'?"),
        ("scheduler.policy=x", "scheduler.policy: there is no policy 'x'. Choices: "),
        ("gate[0].x=1", "gate[0].x: unknown option."),
        ("scheduler.max_num_seqs=4096", "max_num_batched_tokens = 2048"),
        ("plugins.load=['gone.py']", "gone.py does not exist"),
        ("plugins.disable=['x']", "plugins.disable[0]: no plugin or distribution is named 'x'"),
        ("run.prompts=gone.txt", "run.prompts: there is no file "),
        ("model.path=./gone", "model.path: there is no folder "),
    ],
)
def test_check_refuses_with_2(toml, override, expected):
    result = config("check", str(toml), "-o", override)

    assert result.exit_code == 2
    assert expected in result.stderr
    assert "Traceback" not in result.output


def test_check_accepts_the_name_of_an_embedded_model(toml):
    result = config("check", str(toml), "-o", "model.path=some-model")

    assert result.exit_code == 0
    assert result.output.splitlines()[1:] == ["attention: not known before the model is loaded"]


@pytest.fixture
def model(tmp_path):
    from transformers import LlamaConfig

    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    folder = tmp_path / "model"
    LlamaConfig(vocab_size=97, num_hidden_layers=2, **sizes).save_pretrained(folder)
    return folder


def test_check_says_which_attention_is_chosen_and_why_no_other_is(toml, model, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    on_cpu = ["-o", f"model.path={model}", "-o", "executor.torch.device=cpu"]

    result = config("check", str(toml), *on_cpu)

    assert result.exit_code == 0, result.stderr
    others = "not xformers, triton, torch-varlen: it computes on cuda, not on cpu"
    line = f"attention numba ({others}; not torch: numba is preferred)"
    assert result.output.splitlines()[1:] == [line]


def test_check_refuses_an_attention_backend_that_cannot_serve(toml, model, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    on_cpu = ["-o", f"model.path={model}", "-o", "executor.torch.device=cpu"]

    result = config("check", str(toml), *on_cpu, "-o", "attention.backend=triton")

    assert result.exit_code == 2
    assert "the attention backend triton: it computes on cuda, not on cpu" in result.stderr
    assert 'attention.backend = "auto"' in result.stderr
    assert "valid" not in result.output


# reference


def test_reference_page_is_up_to_date():
    """Write it anew with: python -m batchwright_cli.reference.configuration > the page."""
    assert render_reference() == REFERENCE.read_text(encoding="utf-8")


# rendering


@given(
    num_tokens=st.integers(1, 10**6),
    depth=st.integers(1, 4),
    text=st.text(),
    share=st.floats(allow_nan=False),
    key=st.text(min_size=1),
    gates=st.lists(st.sampled_from(["a", "b"])),
)
def test_rendered_configuration_reads_back_as_the_same(num_tokens, depth, text, share, key, gates):
    written = Config.from_dict(
        {
            "scheduler": {"max_num_batched_tokens": num_tokens, "pipeline_depth": depth},
            "run": {"system": text},
            "policy": {key: {"share": share, key: [text, {"x": True}]}},
            "gate": [{"use": name, "text": text} for name in gates],
        }
    )

    assert written == Config.from_dict(tomllib.loads(render_config(written)))
