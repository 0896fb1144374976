"""Build a decoder from a transformers model of a family that is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from attrs import frozen
from torch.nn import functional

from .attention_bridge import ModuleCall
from .decoder import Decoder
from .decoder_family import Family, family_of
from .decoder_layer import DecoderLayer, HeadsNorm, Norm, WholeNorm
from .linear import Linear, make_linear
from .rotary_table import RotaryTable

__all__ = ["DecoderBuilder", "Scores", "activation_of", "build_decoder"]

Activation = Callable[[torch.Tensor], torch.Tensor]

_ACTIVATIONS: dict[str, Activation] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_pytorch_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}


@frozen
class Scores:
    """Parameters of a layer's attention scores.

    Args:
        scale: Factor on them.
        softcap: Their cap; None: none.
    """

    scale: float
    softcap: float | None


def build_decoder(model: Any, calls: Sequence[ModuleCall], num_positions: int) -> Decoder | None:
    """Take a model of transformers apart.

    Args:
        model: A causal language model. Its larger weights are copied.
        calls: Requirements of each layer of attention, in the order of layers.
        num_positions: Positions that requests may reach.

    Returns:
        None if its family is not known, or it has weights that the family has not, or
        not those that it has.
    """
    text = model.config.get_text_config()
    family = family_of(text)
    if family is None or text is not model.config or activation_of(text) is None:
        return None
    text.head_dim = getattr(calls[0].module, "head_dim", None)
    rotaries = _Rotaries(model, num_positions)
    scores = [Scores(call.scale, call.softcap) for call in calls]
    builder = DecoderBuilder(model.state_dict(), text, family, scores, rotaries.of)
    try:
        decoder = builder.build()
    except KeyError:
        return None
    return None if builder.unused else decoder


def activation_of(text: Any) -> Activation | None:
    """Return the activation of a configuration's MLPs; None: something unknown."""
    return _ACTIVATIONS.get(getattr(text, "hidden_act", None) or text.hidden_activation)


class _Rotaries:
    """The position embeddings of a transformers model, shared by layers that have the same."""

    def __init__(self, model: Any, num_positions: int) -> None:
        self._text = model.config.get_text_config()
        self._module = getattr(model.base_model, "rotary_emb", None)
        self._like = model.get_input_embeddings().weight[:1]
        self._num_positions = num_positions
        self._made: dict[str, RotaryTable] = {}

    def of(self, index: int) -> RotaryTable | None:
        """Those of one layer; None: it has none."""
        used = getattr(self._text, "no_rope_layers", None)
        if self._module is None or (used and not used[index]):
            return None
        has_kinds = getattr(self._module, "layer_types", None)
        kind = self._text.layer_types[index] if has_kinds else ""
        if kind not in self._made:
            self._made[kind] = self._make((kind,) if kind else ())
        return self._made[kind]

    def _make(self, arguments: tuple[str, ...]) -> RotaryTable:
        module, like = self._module, self._like
        assert module is not None

        def compute(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            cosines, sines = module(like, positions, *arguments)
            return cosines.to(like.dtype), sines.to(like.dtype)

        return RotaryTable(compute, self._num_positions, self._text.head_dim)


class DecoderBuilder:
    """Put a decoder together out of weights by their usual names.

    Args:
        weights: By name.
        text: Its configuration.
        family: The structure of its layers.
        scores: By layer.
        rotary_of: By layer, its position embeddings; None: it has none.
    """

    def __init__(
        self,
        weights: Mapping[str, torch.Tensor],
        text: Any,
        family: Family,
        scores: Sequence[Scores],
        rotary_of: Callable[[int], RotaryTable | None],
    ) -> None:
        self._weights = dict(weights)
        self._text = text
        self._family = family
        self._scores = scores
        self._rotary_of = rotary_of
        self._heads = (text.num_attention_heads, text.num_key_value_heads)
        self._activation = activation_of(text)

    @property
    def unused(self) -> list[str]:
        """Weights that were not asked for; after ``build``, a sign of another family."""
        return list(self._weights)

    def build(self) -> Decoder:
        """Put it together.

        Raises:
            KeyError: A weight is missing.
        """
        embeddings = self._take("model.embed_tokens.weight")
        family, dtype = self._family, embeddings.dtype
        layers = tuple(self._layer(index) for index in range(len(self._scores)))
        rotaries = [layer.rotary for layer in layers]
        return Decoder(
            embeddings=embeddings,
            embedding_factor=torch.tensor(family.embedding_factor, dtype=dtype).item(),
            rotaries=tuple({id(r): r for r in rotaries if r is not None}.values()),
            layers=layers,
            norm=self._norm("model.norm"),
            head=self._linear("lm_head"),
            logits_divisor=family.logits_divisor,
            logits_cap=family.logits_cap,
        )

    def _layer(self, index: int) -> DecoderLayer:
        activation = self._activation
        assert activation is not None
        family, scores, prefix = self._family, self._scores[index], f"model.layers.{index}."
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."

        def norm(name: str | None) -> Norm | None:
            return None if name is None else self._norm(prefix + name)

        return DecoderLayer(
            index=index,
            num_query_heads=self._heads[0],
            num_kv_heads=self._heads[1],
            head_size=self._text.head_dim,
            scale=scores.scale,
            softcap=scores.softcap,
            rotary=self._rotary_of(index),
            before_attention=norm(family.before_attention),
            after_attention=norm(family.after_attention),
            before_mlp=norm(family.before_mlp),
            after_mlp=norm(family.after_mlp),
            heads_norm=self._heads_norm(attention),
            qkv=self._joined(attention, "qkv_proj", ("q_proj", "k_proj", "v_proj")),
            attention_output=self._linear(f"{attention}o_proj"),
            gate_up=self._joined(mlp, "gate_up_proj", ("gate_proj", "up_proj")),
            down=self._linear(f"{mlp}down_proj"),
            activation=activation,
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
