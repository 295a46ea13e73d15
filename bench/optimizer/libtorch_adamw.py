#!/usr/bin/env python3
"""PyTorch's fused AdamW on the host as a whole stage: unscale, update, bf16 parameters out.

Prints one JSON object a line, with the names that host_update_report --json uses, so that both can
be run in turn and compared. Needs a PyTorch whose fused AdamW works on the CPU (2.4 or later).
"""

import argparse
import json
import statistics
import time

import torch


def stage(optimizer, master, gradient, parameter, scale):
    """The passes that a training step needs when the update is PyTorch's."""
    gradient.mul_(scale)
    optimizer.step()
    parameter.copy_(master)


def measure(elements, threads, rounds):
    torch.set_num_threads(threads)
    master = torch.full((elements,), 0.02)
    gradient = torch.empty(elements)
    parameter = torch.empty(elements, dtype=torch.bfloat16)
    master.grad = gradient
    optimizer = torch.optim.AdamW([master], lr=1e-4, weight_decay=0.1, fused=True)
    kernel, whole = [], []
    for _ in range(rounds + 1):
        gradient.fill_(1e-3)
        start = time.perf_counter()
        optimizer.step()
        kernel.append(time.perf_counter() - start)
        gradient.fill_(1e-3)
        start = time.perf_counter()
        stage(optimizer, master, gradient, parameter, 0.5)
        whole.append(time.perf_counter() - start)
    # The first round allocates the states.
    return {"libtorch_fused_adamw": kernel[1:], "libtorch_stage": whole[1:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=256 << 20)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    timings = measure(options.elements, options.threads, options.rounds)
    for name, seconds in timings.items():
        per_billion = statistics.median(seconds) / options.elements * 1e9
        print(json.dumps({"name": name, "threads": options.threads, "elements": options.elements,
                          "rounds": options.rounds, "seconds_per_1e9": per_billion}))


if __name__ == "__main__":
    main()
