"""Builds a decoder from a transformers model of a family that is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from .attention_bridge import AttentionCall
from .decoder import Decoder
from .decoder_family import Family, family_of
from .decoder_layer import DecoderLayer, HeadsNorm, Norm, WholeNorm
from .linear import Linear, make_linear
from .rotary_table import RotaryTable

__all__ = ["build_decoder"]

_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_pytorch_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}


def build_decoder(model: Any, calls: Sequence[AttentionCall], num_positions: int) -> Decoder | None:
    """Take a model apart.

    Args:
        model: A causal language model of transformers. Its larger weights are copied.
        calls: What each layer asks of attention, in the order of layers.
        num_positions: Positions that requests may reach.

    Returns:
        None if its family is not known, or it has weights or an activation that the
        family has not.
    """
    text = model.config.get_text_config()
    family = family_of(text)
    if family is None or text is not model.config:
        return None
    try:
        return _Builder(model, text, family, calls, num_positions).build()
    except KeyError:  # a weight of the family is not there
        return None


class _Builder:
    def __init__(
        self,
        model: Any,
        text: Any,
        family: Family,
        calls: Sequence[AttentionCall],
        num_positions: int,
    ) -> None:
        self._weights: dict[str, torch.Tensor] = dict(model.state_dict())
        self._text = text
        self._family = family
        self._calls = calls
        self._num_positions = num_positions
        self._embedder = model.get_input_embeddings().weight
        self._rotary_module = model.base_model.rotary_emb
        self._rotaries: dict[str, RotaryTable] = {}
        self._heads = (text.num_attention_heads, text.num_key_value_heads)
        module: Any = calls[0].module
        self._head_size: int = module.head_dim
        self._activation = _ACTIVATIONS[getattr(text, "hidden_act", None) or text.hidden_activation]

    def build(self) -> Decoder | None:
        embeddings = self._take("model.embed_tokens.weight")
        family, dtype = self._family, embeddings.dtype
        layers = tuple(self._layer(index) for index in range(len(self._calls)))
        decoder = Decoder(
            embeddings=embeddings,
            embedding_factor=torch.tensor(family.embedding_factor, dtype=dtype).item(),
            rotaries=tuple(self._rotaries.values()),
            layers=layers,
            norm=self._norm("model.norm"),
            head=self._linear("lm_head"),
            logits_divisor=family.logits_divisor,
            logits_cap=family.logits_cap,
        )
        return None if self._weights else decoder

    def _layer(self, index: int) -> DecoderLayer:
        family, call, prefix = self._family, self._calls[index], f"model.layers.{index}."
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."

        def norm(name: str | None) -> Norm | None:
            return None if name is None else self._norm(prefix + name)

        return DecoderLayer(
            index=index,
            num_query_heads=self._heads[0],
            num_kv_heads=self._heads[1],
            head_size=self._head_size,
            scale=call.scale,
            softcap=call.softcap,
            rotary=self._rotary(index),
            before_attention=norm(family.before_attention),
            after_attention=norm(family.after_attention),
            before_mlp=norm(family.before_mlp),
            after_mlp=norm(family.after_mlp),
            heads_norm=self._heads_norm(attention),
            qkv=self._joined(attention, "qkv_proj", ("q_proj", "k_proj", "v_proj")),
            attention_output=self._linear(f"{attention}o_proj"),
            gate_up=self._joined(mlp, "gate_up_proj", ("gate_proj", "up_proj")),
            down=self._linear(f"{mlp}down_proj"),
            activation=self._activation,
            residual_factor=family.residual_factor,
        )

    def _take(self, name: str) -> torch.Tensor:
        return self._weights.pop(name)

    def _norm(self, name: str) -> Norm:
        return Norm(self._take(f"{name}.weight"), self._text.rms_norm_eps, self._family.gain_offset)

    def _heads_norm(self, attention: str) -> HeadsNorm | None:
        family = self._family
        if not family.heads_norm and not family.whole_norm:
            return None
        kind = HeadsNorm if family.heads_norm else WholeNorm
        return kind(
            self._take(f"{attention}q_norm.weight"),
            self._take(f"{attention}k_norm.weight"),
            self._heads[0],
            self._text.rms_norm_eps,
            family.gain_offset,
        )

    def _linear(self, name: str) -> Linear:
        return make_linear(self._take(f"{name}.weight"), self._weights.pop(f"{name}.bias", None))

    def _joined(self, prefix: str, whole: str, parts: Sequence[str]) -> Linear:
        """One product for several, unless the model has it as one already."""
        if f"{prefix}{whole}.weight" in self._weights:
            return self._linear(prefix + whole)
        weight = torch.cat([self._take(f"{prefix}{part}.weight") for part in parts])
        biases = [self._weights.pop(f"{prefix}{part}.bias", None) for part in parts]
        given = [bias for bias in biases if bias is not None]
        if given and len(given) < len(parts):
            raise KeyError(f"{prefix}: some of {parts} have a bias")
        return make_linear(weight, torch.cat(given) if given else None)

    def _rotary(self, index: int) -> RotaryTable | None:
        """The layer's position embeddings, shared by layers that have the same."""
        used = getattr(self._text, "no_rope_layers", None)
        if used and not used[index]:
            return None
        module: Any = self._rotary_module
        kinds = getattr(module, "layer_types", None)
        kind = self._text.layer_types[index] if kinds else ""
        if kind not in self._rotaries:
            arguments = (kind,) if kind else ()
            like = self._embedder[:1]

            def compute(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
                cosines, sines = module(like, positions, *arguments)
                return cosines.to(like.dtype), sines.to(like.dtype)

            self._rotaries[kind] = RotaryTable(compute, self._num_positions, self._head_size)
        return self._rotaries[kind]
