#!/usr/bin/env python3
"""Compares Spillway's models with Hugging Face transformers: tiny random weights, the same tokens, fp32; logits to 1e-4
and every parameter's gradient to 1e-3 relative. Needs torch and transformers, and a build that has parity_check.

  scripts/gpu/build.sh && scripts/compare_with_transformers.py build/gpu/bin/parity_check --device cuda"""

import argparse

import numpy as np
import parity
import torch
import transformers
from torch.nn import functional

VOCAB, HIDDEN, LAYERS, HEADS, GROUPS, HEAD, FFN = 97, 64, 3, 4, 2, 32, 96
EXPERTS, CHOSEN, EXPERT_FFN = 8, 3, 40
LLAMA_HEAD = HIDDEN // HEADS


def rotary(base, **scaling):
    """Arguments for the rotary embedding, in the form that this version of transformers takes."""
    if int(transformers.__version__.split(".")[0]) >= 5:
        return {"rope_parameters": {"rope_type": "default", "rope_theta": base, **scaling}}
    return {"rope_theta": base, "rope_scaling": scaling or None}


def shared(**more):
    return {
        "vocab_size": VOCAB, "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": GROUPS, "intermediate_size": FFN, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 131072, **more,
    }  # fmt: skip


def overrides(**more):
    keys = {
        "num_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS, "num_query_groups": GROUPS,
        "ffn_hidden_size": FFN, "vocab_size": VOCAB, "layernorm_epsilon": 1e-6, **more,
    }  # fmt: skip
    return [f"model.{key}={value}" for key, value in keys.items()]


def families():
    """Title, their model, our configuration."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    for tied in (True, False):
        yield (
            f"Qwen3ForCausalLM, {'tied' if tied else 'untied'}",
            Qwen3ForCausalLM(Qwen3Config(**shared(head_dim=HEAD, tie_word_embeddings=tied, **rotary(1e6)))),
            overrides(kv_channels=HEAD, qk_layernorm=True, rotary_base=1e6, share_embeddings_and_output_weights=tied),
        )
    yield (
        "Qwen3MoeForCausalLM",
        Qwen3MoeForCausalLM(
            Qwen3MoeConfig(
                **shared(
                    head_dim=HEAD, tie_word_embeddings=False, num_experts=EXPERTS, num_experts_per_tok=CHOSEN,
                    moe_intermediate_size=EXPERT_FFN, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                    output_router_logits=False, **rotary(1e6),
                )
            )
        ),
        overrides(
            kv_channels=HEAD, qk_layernorm=True, rotary_base=1e6, share_embeddings_and_output_weights=False,
            num_moe_experts=EXPERTS, moe_router_topk=CHOSEN, moe_ffn_hidden_size=EXPERT_FFN, moe_aux_loss_coeff=0.0,
        ),
    )  # fmt: skip
    llama3 = {
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }  # fmt: skip
    for title, scaling, ours in (
        ("LlamaForCausalLM, 3.0", {}, {}),
        ("LlamaForCausalLM, 3.2", llama3, {"rope_scaling": True, "rope_scaling_factor": 32.0}),
    ):
        yield (
            title,
            LlamaForCausalLM(LlamaConfig(**shared(head_dim=LLAMA_HEAD, tie_word_embeddings=True, **rotary(5e5, **scaling)))),
            overrides(kv_channels=LLAMA_HEAD, rotary_base=5e5, share_embeddings_and_output_weights=True, **ours),
        )  # fmt: skip


def checkpoint_tensors(name, value):
    """A parameter under the names that checkpoints have: stacked experts one by one."""
    if name.endswith("experts.gate_up_proj"):
        for expert, matrix in enumerate(value):
            gate, up = np.split(matrix, 2)
            prefix = name.removesuffix("gate_up_proj") + f"{expert}."
            yield from ((prefix + "gate_proj.weight", gate), (prefix + "up_proj.weight", up))
    elif name.endswith("experts.down_proj"):
        for expert, matrix in enumerate(value):
            yield name.removesuffix("down_proj") + f"{expert}.down_proj.weight", matrix
    else:
        yield name, value


def randomize(model):
    """Larger than the usual initial values, norms not one: every part of the model shall matter."""
    for name, parameter in model.named_parameters():
        parameter.data.normal_(1.0 if "norm" in name else 0.0, 0.15)


def run_theirs(model, tokens, labels):
    logits = model(input_ids=torch.from_numpy(tokens), use_cache=False).logits
    loss = functional.cross_entropy(logits.reshape(-1, VOCAB), torch.from_numpy(labels).reshape(-1), ignore_index=-100)
    loss.backward()
    results = {"logits": logits.detach().numpy(), "loss": np.array([loss.item(), 0.0])}
    for name, parameter in model.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        results.update({f"grad.{key}": value for key, value in checkpoint_tensors(name, gradient.numpy())})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="parity_check of a build")
    parser.add_argument("--device", default="auto", choices=("auto", "cuda", "emulated"), help="what our model runs on")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    generator = np.random.default_rng(arguments.seed)
    results = {}
    for title, model, keys in families():
        model.set_attn_implementation("eager")
        model = model.float().train()
        randomize(model)
        tokens, labels = parity.random_ids(generator, 2, 70, VOCAB)
        weights = {}
        for name, parameter in model.named_parameters():
            weights.update(checkpoint_tensors(name, parameter.detach().numpy()))
        ours = parity.run_ours(arguments.program, keys, weights, tokens, labels, arguments.device)
        theirs = run_theirs(model, tokens, labels)
        results[title] = parity.compare(title, ours, theirs, logits_limit=1e-4, gradient_limit=1e-3)
    parity.finish(results)


if __name__ == "__main__":
    main()
