"""Interleaved timing, and the bandwidth that a time is held against."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch
from contenders import Contender


def interleave(contenders: Sequence[Contender], rounds: int, warmup: int) -> list[list[float]]:
    """Seconds of each step: A B C A B C ..., so that drift of the machine meets all alike."""
    times: list[list[float]] = [[] for _ in contenders]
    for index in range(warmup + rounds):
        for contender, seconds in zip(contenders, times):
            contender.prepare()
            contender.finish()
            begin = time.perf_counter()
            contender.step()
            contender.finish()
            if index >= warmup:
                seconds.append(time.perf_counter() - begin)
    return times


def link_bandwidth(device: torch.device, size: int = 256 << 20) -> dict[str, float]:
    """Bytes per second of page-locked copies: each way alone, and each way of both at once."""
    host = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
    there = [torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2)]
    streams = [torch.cuda.Stream(device) for _ in range(2)]

    def out() -> None:
        with torch.cuda.stream(streams[0]):
            host[0].copy_(there[0], non_blocking=True)

    def back() -> None:
        with torch.cuda.stream(streams[1]):
            there[1].copy_(host[1], non_blocking=True)

    return {
        "to_host": size / _median_s(device, out),
        "to_device": size / _median_s(device, back),
        "both_ways_each": size / _median_s(device, lambda: (out(), back())),
    }


def _median_s(device: torch.device, run: Callable[[], object], rounds: int = 7) -> float:
    seconds = []
    for _ in range(rounds):
        torch.cuda.synchronize(device)
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])
