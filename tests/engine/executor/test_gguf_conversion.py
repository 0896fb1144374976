"""Converting GGUF: tensors and fields must agree before anything is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gguf")

from gguf import GGUFWriter

from batchwright_engine.executor.gguf_conversion import convert

SHAPES = {
    "token_embd.weight": (11, 8),
    "output_norm.weight": (8,),
    "blk.0.attn_norm.weight": (8,),
    "blk.0.attn_q.weight": (8, 8),
    "blk.0.attn_k.weight": (4, 8),
    "blk.0.attn_v.weight": (4, 8),
    "blk.0.attn_output.weight": (8, 8),
    "blk.0.ffn_norm.weight": (8,),
    "blk.0.ffn_gate.weight": (6, 8),
    "blk.0.ffn_up.weight": (6, 8),
    "blk.0.ffn_down.weight": (8, 6),
}


def write(path: Path, shapes: dict[str, Any], **changes: int) -> Path:
    """A file of a tiny Llama; a shape of None leaves its tensor out."""
    writer = GGUFWriter(path, "llama")
    sizes = {"heads": 4, "kv_heads": 2, "vocab": 11, "layers": 1, **changes}
    writer.add_head_count(sizes["heads"])
    writer.add_head_count_kv(sizes["kv_heads"])
    writer.add_vocab_size(sizes["vocab"])
    writer.add_block_count(sizes["layers"])
    writer.add_embedding_length(8)
    writer.add_feed_forward_length(6)
    writer.add_context_length(32)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10_000.0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    for name, shape in {**SHAPES, **shapes}.items():
        if shape is not None:
            writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("shapes", "changes", "message"),
    [
        ({}, {"kv_heads": 4}, r"layers\.0\.self_attn\.k_proj\.weight is \[4, 8\] in .*x\.gguf"),
        ({}, {"vocab": 12}, r"embed_tokens\.weight is \[11, 8\] .* makes it \[12, 8\]"),
        ({}, {"heads": 0}, r"x\.gguf: num_attention_heads = 0; expected an integer from 1"),
        ({}, {"layers": 2}, r"x\.gguf: model\.layers\.1\.input_layernorm\.weight is missing"),
        ({}, {"layers": 10**9}, r"x\.gguf: 1000000000 layers, but 11 tensors"),
        ({"blk.1.ffn_norm.weight": (8,)}, {}, "has no place among 1 layers"),
        ({"output.weight": (11, 9)}, {}, r"lm_head\.weight is \[11, 9\] .* \[11, 8\]"),
        ({"blk.0.ffn_up.weight": None}, {}, r"mlp\.up_proj\.weight is missing"),
        ({}, {}, "the file has no field 'tokenizer.ggml.model'"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(
    shapes: dict[str, Any], changes: dict[str, int], message: str, tmp_path: Path
) -> None:
    """Tensor, file and both shapes are named; only a sound one gets to its tokenizer."""
    source, target = write(tmp_path / "x.gguf", shapes, **changes), tmp_path / "target"
    target.mkdir()
    with pytest.raises(ValueError, match=message):
        convert(source, target, lambda done, total: None)
    assert list(target.iterdir()) == []
