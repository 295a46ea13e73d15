"""Compares Spillway's models with a plain reference: double precision, one token and one expert at a time where that
is clearest, nothing fused, written from the papers. Usage: reference.py PATH_TO_PARITY_CHECK"""

import math
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))
import parity  # noqa: E402

LAYERS, HIDDEN, FFN, HEADS, GROUPS, VOCAB = 3, 32, 48, 4, 2, 61


class Shape:
    def __init__(self, head, qk_norm, tied, base, stretch=1.0, experts=0, chosen=0, balance=0.0, normalize=True):
        self.head, self.qk_norm, self.tied = head, qk_norm, tied
        self.base, self.stretch = base, stretch
        self.experts, self.chosen, self.balance, self.normalize = experts, chosen, balance, normalize
        self.ffn = 24 if experts else FFN

    def overrides(self):
        keys = {
            "num_layers": LAYERS, "hidden_size": HIDDEN, "ffn_hidden_size": FFN, "num_attention_heads": HEADS,
            "num_query_groups": GROUPS, "kv_channels": self.head, "vocab_size": VOCAB, "qk_layernorm": self.qk_norm,
            "share_embeddings_and_output_weights": self.tied, "rotary_base": self.base, "layernorm_epsilon": 1e-6,
        }  # fmt: skip
        if self.stretch > 1:
            keys.update(rope_scaling=True, rope_scaling_factor=self.stretch)
        if self.experts:
            keys.update(num_moe_experts=self.experts, moe_router_topk=self.chosen, moe_ffn_hidden_size=self.ffn,
                        moe_aux_loss_coeff=self.balance, moe_router_pre_softmax=not self.normalize)  # fmt: skip
        return [f"model.{key}={value}" for key, value in keys.items()]

    def sizes(self):
        sizes = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
        if not self.tied:
            sizes["lm_head.weight"] = (VOCAB, HIDDEN)
        for layer in range(LAYERS):
            prefix = f"model.layers.{layer}."
            sizes[prefix + "input_layernorm.weight"] = (HIDDEN,)
            sizes[prefix + "post_attention_layernorm.weight"] = (HIDDEN,)
            sizes[prefix + "self_attn.q_proj.weight"] = (HEADS * self.head, HIDDEN)
            sizes[prefix + "self_attn.k_proj.weight"] = (GROUPS * self.head, HIDDEN)
            sizes[prefix + "self_attn.v_proj.weight"] = (GROUPS * self.head, HIDDEN)
            sizes[prefix + "self_attn.o_proj.weight"] = (HIDDEN, HEADS * self.head)
            if self.qk_norm:
                sizes[prefix + "self_attn.q_norm.weight"] = (self.head,)
                sizes[prefix + "self_attn.k_norm.weight"] = (self.head,)
            if self.experts:
                sizes[prefix + "mlp.gate.weight"] = (self.experts, HIDDEN)
            parts = [f"mlp.experts.{e}." for e in range(self.experts)] or ["mlp."]
            for part in parts:
                sizes[prefix + part + "gate_proj.weight"] = (self.ffn, HIDDEN)
                sizes[prefix + part + "up_proj.weight"] = (self.ffn, HIDDEN)
                sizes[prefix + part + "down_proj.weight"] = (HIDDEN, self.ffn)
        return sizes


def norm(x, weight):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


def frequency(shape, pair):
    plain = shape.base ** (-2 * pair / shape.head)
    if shape.stretch == 1:
        return plain
    wave = 2 * math.pi / plain
    if wave > 8192:
        return plain / shape.stretch
    if wave < 2048:
        return plain
    smooth = (8192 / wave - 1) / 3
    return (1 - smooth) * plain / shape.stretch + smooth * plain


def turned(x, shape):
    """x (seq, head): pair (i, i + head / 2) at position p turns by p times its frequency."""
    half = shape.head // 2
    angles = torch.tensor([[p * frequency(shape, i) for i in range(half)] for p in range(x.shape[0])],
                          dtype=torch.float64)  # fmt: skip
    a, b = x[:, :half], x[:, half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], 1)


def attention(x, weights, prefix, shape):
    """x (seq, HIDDEN), already normed."""
    q, k, v = (x @ weights[f"{prefix}{name}_proj.weight"].T for name in "qkv")
    outputs = []
    for head in range(HEADS):
        group = head // (HEADS // GROUPS)
        one = q[:, head * shape.head : (head + 1) * shape.head]
        key = k[:, group * shape.head : (group + 1) * shape.head]
        value = v[:, group * shape.head : (group + 1) * shape.head]
        if shape.qk_norm:
            one = norm(one, weights[prefix + "q_norm.weight"])
            key = norm(key, weights[prefix + "k_norm.weight"])
        scores = turned(one, shape) @ turned(key, shape).T / math.sqrt(shape.head)
        rows = [torch.softmax(scores[i, : i + 1], 0) @ value[: i + 1] for i in range(x.shape[0])]
        outputs.append(torch.stack(rows))
    return torch.cat(outputs, 1) @ weights[prefix + "o_proj.weight"].T


def swiglu(x, weights, prefix):
    gate, up = x @ weights[prefix + "gate_proj.weight"].T, x @ weights[prefix + "up_proj.weight"].T
    return (gate * torch.sigmoid(gate) * up) @ weights[prefix + "down_proj.weight"].T


def mixture(x, weights, prefix, shape):
    """x (tokens, HIDDEN): the experts' mixture and the load-balancing loss over these tokens."""
    probabilities = torch.softmax(x @ weights[prefix + "gate.weight"].T, 1)
    visits = torch.zeros(shape.experts, dtype=torch.float64)
    rows = []
    for token, chances in zip(x, probabilities):
        order = sorted(range(shape.experts), key=lambda e: -chances[e].item())[: shape.chosen]
        total = sum(chances[e] for e in order) if shape.normalize else 1.0
        rows.append(sum(chances[e] / total * swiglu(token, weights, f"{prefix}experts.{e}.") for e in order))
        visits[order] += 1
    share = visits / (len(rows) * shape.chosen)
    balance = shape.balance * shape.experts * (share * probabilities.mean(0)).sum()
    return torch.stack(rows), balance


def forward(weights, tokens, labels, shape):
    hidden = weights["model.embed_tokens.weight"][tokens]  # (sequences, seq, HIDDEN)
    balance = torch.zeros((), dtype=torch.float64)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        normed = norm(hidden, weights[prefix + "input_layernorm.weight"])
        hidden = hidden + torch.stack([attention(x, weights, prefix + "self_attn.", shape) for x in normed])
        normed = norm(hidden, weights[prefix + "post_attention_layernorm.weight"])
        if shape.experts:
            mixed, loss = mixture(normed.reshape(-1, HIDDEN), weights, prefix + "mlp.", shape)
            hidden, balance = hidden + mixed.reshape(hidden.shape), balance + loss
        else:
            hidden = hidden + swiglu(normed, weights, prefix + "mlp.")
    head = weights["model.embed_tokens.weight" if shape.tied else "lm_head.weight"]
    logits = norm(hidden, weights["model.norm.weight"]) @ head.T
    counted = labels >= 0
    loss = -torch.log_softmax(logits[counted], 1)[torch.arange(int(counted.sum())), labels[counted]].mean()
    return logits, loss, balance


def check(title, shape, program):
    generator = np.random.default_rng(5)
    sizes = shape.sizes()
    # Norms near one, matrices large enough that every part of the model matters.
    weights = {
        name: (generator.normal(0, 0.2, size) + (1 if "norm" in name else 0)).astype(np.float32)
        for name, size in sizes.items()
    }
    tokens, labels = parity.random_ids(generator, 2, 21, VOCAB)
    ours = parity.run_ours(program, shape.overrides(), weights, tokens, labels, "emulated")
    plain = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in weights.items()}
    logits, loss, balance = forward(plain, torch.from_numpy(tokens), torch.from_numpy(labels), shape)
    (loss + balance).backward()
    theirs = {"logits": logits.detach().numpy(), "loss": np.array([loss.item(), balance.item()])}
    theirs.update({f"grad.{name}": value.grad.numpy() for name, value in plain.items() if value.grad is not None})
    for name in sizes:  # an expert that no token chose
        theirs.setdefault(f"grad.{name}", np.zeros(sizes[name]))
    return parity.compare(title, ours, theirs, logits_limit=1e-5, gradient_limit=1e-4)


def main():
    torch.set_num_threads(1)
    program = sys.argv[1]
    moe = {"experts": 6, "chosen": 2, "balance": 0.05}
    parity.finish({
        title: check(title, shape, program)
        for title, shape in {
            "Qwen3": Shape(16, True, True, 1e6),
            "Qwen3 mixture of experts": Shape(16, True, False, 1e6, **moe),
            "mixture with softmax before the choice": Shape(16, True, False, 1e6, **moe, normalize=False),
            "Llama 3.2": Shape(8, False, True, 5e5, stretch=32.0),
        }.items()
    })  # fmt: skip


if __name__ == "__main__":
    main()
