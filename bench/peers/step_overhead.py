"""What a step costs in Python: reading gradients and settings, and one call into C++.

Needs no GPU: the parameters are tiny, so that little else is left of a step. The last figure is a
floor for any binding: one call with three numbers through pybind11 and through ctypes.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import time
from collections.abc import Callable

import torch

import spillway
from spillway import _core


def median_us(run: Callable[[], object], rounds: int = 200) -> float:
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds) * 1e6


def measure_step(num_parameters: int) -> dict[str, float]:
    params = [torch.nn.Parameter(torch.ones(1)) for _ in range(num_parameters)]
    optimizer = spillway.HybridDeviceOptimizer(params, 1.0, torch.optim.AdamW, lr=1e-3)
    for param in params:
        param.grad = torch.ones(1)
    optimizer.step()
    store = optimizer._lazy()
    reader = store._parts[0].reader
    lists = [group["params"] for group in optimizer.param_groups]
    rule = store._options.rule
    return {
        "parameters": num_parameters,
        "read_gradients_us": median_us(lambda: reader.read(lists)),
        "read_settings_us": median_us(lambda: [rule.settings(g) for g in optimizer.param_groups]),
        "whole_step_us": median_us(optimizer.step, rounds=50),
        "plain_torch_loop_us": median_us(lambda: [p.grad.data_ptr() for p in params]),
    }


def measure_bindings() -> dict[str, float]:
    """A thousand calls each, as microseconds a call."""
    library = ctypes.CDLL(None)
    through_ctypes = library.memcmp
    through_ctypes.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    buffer = ctypes.addressof(ctypes.create_string_buffer(8))
    watched = _core.Watched

    def pybind11_calls() -> None:
        for _ in range(1000):
            watched(0, 0, False)

    def ctypes_calls() -> None:
        for _ in range(1000):
            through_ctypes(buffer, buffer, 8)

    return {
        "pybind11_call_us": median_us(pybind11_calls, 50) / 1000,
        "ctypes_call_us": median_us(ctypes_calls, 50) / 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", type=int, nargs="+", default=[1, 100, 1000, 10000])
    for number in parser.parse_args().parameters:
        print(json.dumps(measure_step(number)), flush=True)
    print(json.dumps(measure_bindings()), flush=True)


if __name__ == "__main__":
    main()
