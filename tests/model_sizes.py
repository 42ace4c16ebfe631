"""The sizes of models, from the configuration classes of transformers and of FLA.

`python -m tests.model_sizes` writes `flacheck/tables/model_sizes.yaml`. Both packages must be
installed, torch need not: FLA's configurations are loaded from their files.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import distribution, version
from pathlib import Path
from types import ModuleType
from typing import Any

from flacheck.tables.model_sizes import Layer
from tests.paths import TABLES

HEAD = """\
# Sizes of models that people train and serve: the default values of configuration classes, one row a kind of layer. Linear
# attention comes first, then state spaces and attention; within them the models that are used most.
# `python -m tests.model_sizes` writes this file. `flacheck.tables.model_sizes.ModelSizes` describes the fields.
"""
Sizes = dict[str, int]
Reader = Callable[[Any], Sizes]


def read_attention(config: Any) -> Sizes:
    """Return the sizes of a layer of softmax attention, queries grouped or not."""
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return _heads(heads, getattr(config, "num_key_value_heads", None) or heads, size, size)


def read_lightning(config: Any) -> Sizes:
    """Return the sizes of MiniMax's linear attention, which has a key head for each query head."""
    heads = config.num_attention_heads
    size = config.head_dim or config.hidden_size // heads
    return _heads(heads, heads, size, size)


def read_expanded_latent(config: Any) -> Sizes:
    """Return the sizes of latent attention that trains: keys and values for each head."""
    heads = getattr(config, "num_attention_heads", None) or config.num_heads
    size = config.qk_nope_head_dim + config.qk_rope_head_dim
    return _heads(heads, heads, size, config.v_head_dim)


def read_latent(config: Any) -> Sizes:
    """Return the sizes of latent attention that decodes: the heads share one latent key and value."""
    heads = config.num_attention_heads
    size = config.kv_lora_rank + config.qk_rope_head_dim
    return _heads(heads, 1, size, config.kv_lora_rank)


def read_grouped_linear(config: Any) -> Sizes:
    """Return the sizes of linear attention with heads of values that share a key."""
    heads = config.linear_num_key_heads
    keys, values = config.linear_key_head_dim, config.linear_value_head_dim
    return {**_heads(heads, heads, keys, values), "value_heads": config.linear_num_value_heads}


def read_linear(config: Any) -> Sizes:
    """Return the sizes of linear attention with one head size."""
    heads, size = config.linear_num_heads, config.linear_head_dim
    return _heads(heads, heads, size, size)


def read_expanded(config: Any) -> Sizes:
    """Return the sizes of an FLA layer whose heads divide an expansion of the hidden size."""
    heads = config.num_heads
    keys, values = (
        round(config.hidden_size * ratio) // heads for ratio in (config.expand_k, config.expand_v)
    )
    state = getattr(config, "num_slots", None) or 0
    return {**_heads(heads, heads, keys, values), "state": state}


def read_fixed_head(config: Any) -> Sizes:
    """Return the sizes of an FLA layer whose configuration has the head size of keys."""
    heads, size = config.num_heads, config.head_dim
    return _heads(heads, heads, size, int(size * getattr(config, "expand_v", 1)))


def read_gates(config: Any) -> Sizes:
    """Return the sizes of an FLA layer with forget gates as keys (HGRN2, LightNet)."""
    size = config.expand_ratio
    heads = config.num_heads or config.hidden_size // size
    return _heads(heads, heads, size, config.hidden_size // heads)


def read_fla_attention(config: Any) -> Sizes:
    """Return the sizes of softmax attention in FLA, and of a vision encoder's."""
    heads = config.num_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return _heads(heads, getattr(config, "num_kv_heads", None) or heads, size, size)


def read_embedding(config: Any) -> Sizes:
    """Return the sizes of Qwen2-VL's encoder, whose hidden size is the width of its output."""
    heads, width = config.num_heads, config.embed_dim
    return {**_heads(heads, heads, width // heads, width // heads), "hidden": width}


def read_xlstm(config: Any) -> Sizes:
    """Return the sizes of xLSTM's matrix memory."""
    heads = config.num_heads
    keys = round(config.hidden_size * config.qk_dim_factor) // heads
    values = round(config.hidden_size * config.v_dim_factor) // heads
    return _heads(heads, heads, keys, values)


def read_state_space(config: Any) -> Sizes:
    """Return the sizes of Mamba2's layer: groups share keys and queries of the state's size."""
    names = ("state_size", "ssm_state_size", "mamba_d_state")
    state = _first(config, *names)
    groups = _first(config, "n_groups", "mamba_n_groups")
    size = _first(config, "mamba_head_dim", "mamba_d_head", "head_dim")
    values = _first(config, "mamba_num_heads", "mamba_n_heads", "num_heads")
    return {**_heads(groups, groups, state, size), "value_heads": values, "state": state}


def read_selective_scan(config: Any) -> Sizes:
    """Return the sizes of Mamba's layer, which has no heads; `intermediate` is the scan's width."""
    state = _first(config, "state_size", "mamba_d_state")
    width = config.hidden_size * _first(config, "expand", "mamba_expand")
    return {"state": state, "intermediate": width}


def read_intermediate(config: Any) -> int:
    """Return the width of the feed-forward layer, or 0 if the configuration leaves it open."""
    width = getattr(config, "intermediate_size", None)
    ratio = getattr(config, "hidden_ratio", None)
    if width or not ratio:
        return width or 0
    # The defaults of fla/modules/mlp.py, and of RWKV's feed-forward layers in FLA.
    is_rwkv = config.model_type.startswith("rwkv")
    unit = 32 if is_rwkv else 256
    exact = int(config.hidden_size * ratio) if is_rwkv else int(config.hidden_size * ratio * 2 / 3)
    return -(-exact // unit) * unit


# Layers of linear attention, of state spaces and of softmax attention, in the order of the table:
# the model, its configuration class, how its sizes are read.
LINEAR: list[tuple[str, str, Reader]] = [
    ("Qwen3-Next", "transformers:Qwen3NextConfig", read_grouped_linear),
    ("Qwen3.5", "transformers:Qwen3_5TextConfig", read_grouped_linear),
    ("Kimi Linear", "transformers:KimiLinearConfig", read_linear),
    ("MiniMax", "transformers:MiniMaxConfig", read_lightning),
    ("Ling", "transformers:BailingHybridConfig", read_linear),
    ("OLMo Hybrid", "transformers:OlmoHybridConfig", read_grouped_linear),
    ("GLA", "fla:gla.GLAConfig", read_expanded),
    ("Gated DeltaNet", "fla:gated_deltanet.GatedDeltaNetConfig", read_fixed_head),
    ("DeltaNet", "fla:delta_net.DeltaNetConfig", read_expanded),
    ("RWKV-7", "fla:rwkv7.RWKV7Config", read_fixed_head),
    ("KDA", "fla:kda.KDAConfig", read_fixed_head),
    ("RWKV-6", "fla:rwkv6.RWKV6Config", read_expanded),
    ("RetNet", "fla:retnet.RetNetConfig", read_expanded),
    ("HGRN2", "fla:hgrn2.HGRN2Config", read_gates),
    ("GSA", "fla:gsa.GSAConfig", read_expanded),
    ("Linear attention", "fla:linear_attn.LinearAttentionConfig", read_expanded),
    ("Comba", "fla:comba.CombaConfig", read_fixed_head),
    ("Gated DeltaProduct", "fla:gated_deltaproduct.GatedDeltaProductConfig", read_fixed_head),
    ("MesaNet", "fla:mesa_net.MesaNetConfig", read_fixed_head),
    ("MoM", "fla:mom.MomConfig", read_fixed_head),
    ("LightNet", "fla:lightnet.LightNetConfig", read_gates),
    ("xLSTM", "transformers:xLSTMConfig", read_xlstm),
]
STATE_SPACES: list[tuple[str, str, Reader]] = [
    ("Mamba2, hidden size 4096", "transformers:Mamba2Config", read_state_space),
    ("Mamba2", "fla:mamba2.Mamba2Config", read_state_space),
    ("Nemotron-H", "transformers:NemotronHConfig", read_state_space),
    ("Granite 4", "transformers:GraniteMoeHybridConfig", read_state_space),
    ("Bamba", "transformers:BambaConfig", read_state_space),
    ("Mamba3", "fla:mamba3.Mamba3Config", read_state_space),
    ("Mamba", "fla:mamba.MambaConfig", read_selective_scan),
    ("Jamba", "transformers:JambaConfig", read_selective_scan),
    ("Samba", "fla:samba.SambaConfig", read_selective_scan),
]
ATTENTION: list[tuple[str, str, Reader]] = [
    ("Llama", "transformers:LlamaConfig", read_attention),
    ("Qwen3", "transformers:Qwen3Config", read_attention),
    ("Mistral", "transformers:MistralConfig", read_attention),
    ("Llama 4", "transformers:Llama4TextConfig", read_attention),
    ("Gemma 3", "transformers:Gemma3TextConfig", read_attention),
    ("DeepSeek-V3", "transformers:DeepseekV3Config", read_expanded_latent),
    ("DeepSeek-V3, decoding", "transformers:DeepseekV3Config", read_latent),
    ("gpt-oss", "transformers:GptOssConfig", read_attention),
    ("Qwen3-Next, attention", "transformers:Qwen3NextConfig", read_attention),
    ("Qwen3.5, attention", "transformers:Qwen3_5TextConfig", read_attention),
    ("Qwen3-VL, vision", "transformers:Qwen3VLVisionConfig", read_fla_attention),
    ("Qwen2-VL, vision", "transformers:Qwen2VLVisionConfig", read_embedding),
    ("Kimi Linear, attention", "transformers:KimiLinearConfig", read_expanded_latent),
    ("Qwen2", "transformers:Qwen2Config", read_attention),
    ("Mixtral", "transformers:MixtralConfig", read_attention),
    ("Gemma", "transformers:GemmaConfig", read_attention),
    ("GLM-4", "transformers:Glm4Config", read_attention),
    ("MiniMax-M2", "transformers:MiniMaxM2Config", read_attention),
    ("Mistral Small 4", "transformers:Mistral4Config", read_expanded_latent),
    ("DeepSeek-V4", "transformers:DeepseekV4Config", read_attention),
    ("Phi-3", "transformers:Phi3Config", read_attention),
    ("OLMo 3", "transformers:Olmo3Config", read_attention),
    ("SmolLM3", "transformers:SmolLM3Config", read_attention),
    ("Command R", "transformers:Cohere2Config", read_attention),
    ("GPT-2", "transformers:GPT2Config", read_attention),
    ("BERT", "transformers:BertConfig", read_attention),
    ("Transformer", "fla:transformer.TransformerConfig", read_fla_attention),
    ("NSA", "fla:nsa.NSAConfig", read_fla_attention),
]
GROUPS = [
    (Layer.LINEAR_ATTENTION, LINEAR),
    (Layer.STATE_SPACE, STATE_SPACES),
    (Layer.ATTENTION, ATTENTION),
]


def list_rows() -> Iterator[dict[str, int | str]]:
    """Yield the rows of the table; a size of 0 is left out."""
    for layer, models in GROUPS:
        for name, path, read in models:
            config = load_class(path)()
            shared = {
                "hidden": config.hidden_size,
                "intermediate": read_intermediate(config),
                "vocabulary": getattr(config, "vocab_size", None) or 0,
            }
            sizes = {key: size for key, size in {**shared, **read(config)}.items() if size}
            yield {"name": name, "layer": layer.value, **sizes, "source": describe_source(path)}


def load_class(path: str) -> Callable[[], Any]:
    """Return the configuration class that `PACKAGE:CLASS` or `fla:MODEL.CLASS` names."""
    package, _, name = path.partition(":")
    if package != "fla":
        configuration_class: Callable[[], Any] = getattr(importlib.import_module(package), name)
        return configuration_class
    model, _, name = name.partition(".")
    folder = Path(str(distribution("flash-linear-attention").locate_file("fla"))) / "models"
    configuration: Callable[[], Any] = getattr(_load_file(folder, model), name)
    return configuration


def describe_source(path: str) -> str:
    """Return where the sizes of a configuration class come from."""
    package, _, name = path.partition(":")
    distribution_name = "flash-linear-attention" if package == "fla" else package
    return f"{name.rpartition('.')[2]}() of {distribution_name} {version(distribution_name)}"


def text() -> str:
    """Return the table's file."""
    lines = []
    for row in list_rows():
        fields = ", ".join(f"{key}: {_quote(value)}" for key, value in row.items())
        lines.append(f"- {{{fields}}}\n")
    return f"{HEAD}models:\n{''.join(lines)}"


def _heads(heads: int, shared: int, keys: int, values: int) -> Sizes:
    names = ("heads", "key_heads", "value_heads", "key_size", "value_size")
    return dict(zip(names, (heads, shared, shared, keys, values)))


def _first(config: Any, *names: str) -> int:
    """Return the first of some attributes that a configuration has."""
    return next(getattr(config, name) for name in names if hasattr(config, name))


def _load_file(folder: Path, model: str) -> ModuleType:
    """Load the configuration of an FLA model without FLA, whose packages import torch."""
    for name in ("fla", "fla.models"):
        package = sys.modules.setdefault(name, ModuleType(name))
        package.__path__ = [str(folder if name == "fla.models" else folder.parent)]
    file = folder / model / f"configuration_{model}.py"
    spec = importlib.util.spec_from_file_location(f"configuration_{model}", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _quote(value: int | str) -> str:
    return f'"{value}"' if isinstance(value, str) and not value.isalnum() else str(value)


if __name__ == "__main__":
    (TABLES / "model_sizes.yaml").write_text(text())
