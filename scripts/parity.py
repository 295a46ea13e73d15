"""What the comparisons of Spillway's models with other implementations share: safetensors files, the program that runs
our model (training/tools/parity_check), and the table of differences. Needs numpy alone."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

_TYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
_NAMES = {np.dtype(value): key for key, value in _TYPES.items()}


def write_safetensors(path, tensors):
    header, offset = {}, 0
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    for name, array in arrays.items():
        header[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for array in arrays.values():
            out.write(array.tobytes())


def read_safetensors(path):
    data = Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = np.frombuffer(data[8 + size + begin : 8 + size + end], dtype=_TYPES[entry["dtype"]])
        tensors[name] = raw.reshape(entry["shape"])
    return tensors


def run_ours(program, overrides, weights, tokens, labels, device):
    """Our logits, losses and gradients for these weights (by checkpoint name, fp32) and tokens."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_safetensors(folder / "weights.safetensors", weights)
        write_safetensors(folder / "inputs.safetensors", {"tokens": tokens, "labels": labels})
        command = [program, *overrides, "--device", device]
        for name in ("weights", "inputs", "output"):
            command += [f"--{name}", str(folder / f"{name}.safetensors")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return read_safetensors(folder / "output.safetensors")


def relative_difference(ours, theirs):
    """Largest difference over the largest value: what 'agree to 1e-4 relative' means here."""
    scale = float(np.abs(theirs).max())
    difference = float(np.abs(ours.astype(np.float64) - theirs).max())
    return difference / scale if scale > 0 else difference


def compare(title, ours, theirs, logits_limit, gradient_limit):
    """Prints a table and returns whether every tensor of `theirs` is in `ours` and within its limit.
    A gradient that is zero everywhere is refused: it would hide a part that is not connected. An expert that no token
    chose has one."""
    rows, agree = [], set(ours) == set(theirs)
    for name in sorted(set(ours) ^ set(theirs)):
        print(f"  {name}: only in {'ours' if name in ours else 'theirs'}")
    for name in sorted(set(ours) & set(theirs)):
        limit = gradient_limit if name.startswith("grad.") else logits_limit
        same_shape = ours[name].shape == theirs[name].shape
        difference = relative_difference(ours[name], theirs[name]) if same_shape else float("inf")
        connected = ".experts." in name or bool(np.abs(theirs[name]).max() > 0)
        rows.append((difference, limit, name, difference <= limit and connected))
    agree = agree and all(row[3] for row in rows)
    gradients = [row for row in rows if row[2].startswith("grad.")]
    print(f"{title}: {len(gradients)} gradients compared")
    print(f"  {'tensor':<58} {'difference':>11} {'limit':>8}")
    shown = [row for row in rows if row not in gradients or not row[3]]
    shown += sorted((row for row in gradients if row[3]), reverse=True)[:5]
    for difference, limit, name, good in shown:
        print(f"  {name:<58} {difference:>11.2e} {limit:>8.0e}{'' if good else '  DIFFERS'}")
    return agree


def random_ids(generator, sequences, length, vocab):
    """Tokens, and labels of which every seventh does not count."""
    tokens = generator.integers(0, vocab, (sequences, length), dtype=np.int64)
    labels = generator.integers(0, vocab, (sequences, length), dtype=np.int64)
    labels.reshape(-1)[::7] = -100
    return tokens, labels


def finish(results):
    bad = [name for name, good in results.items() if not good]
    print("all agree" if not bad else f"differ: {', '.join(bad)}")
    sys.exit(1 if bad else 0)
