"""Optimizer steps with all states on the host: Spillway against its peers, interleaved.

Prints a JSON line for each figure and a table at the end. The peers' own files are looked for in a
folder that git ignores; a peer that is not there is named as missing.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from contenders import Contender, MissingPeer, Spillway, ours, peers
from timing import interleave, link_bandwidth
from workload import Workload

ROOT = Path(__file__).resolve().parents[2]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=4, help="4: 0.81e9 parameters")
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--ffn", type=int, default=11008)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--updates", nargs="+", default=["host", "stream", "auto"])
    parser.add_argument("--master", choices=["fp32", "remainder"], default="fp32")
    parser.add_argument(
        "--peers",
        nargs="*",
        default=["megatron", "megatron-overlap", "libtorch", "torchao", "deepspeed"],
    )
    parser.add_argument("--peer-files", type=Path, default=ROOT / ".carry")
    parser.add_argument("--out", type=Path, help="also write the JSON lines there")
    parser.add_argument("--launch", default="all cores", help=argparse.SUPPRESS)
    parser.add_argument(
        "--no-torchrun",
        action="store_true",
        help="leave out the comparison with OMP_NUM_THREADS=1, as torchrun starts its processes",
    )
    return parser.parse_args()


class Report:
    """JSON lines as they come; a table when all are there."""

    def __init__(self, out: Path | None) -> None:
        self._file = out.open("a", encoding="utf-8") if out is not None else None
        self.rows: list[dict[str, Any]] = []

    def add(self, **row: Any) -> None:
        self.rows.append(row)
        line = json.dumps(row)
        print(line, flush=True)
        if self._file is not None:
            print(line, file=self._file, flush=True)

    def table(self) -> str:
        steps = [row for row in self.rows if row["figure"] == "step"]
        lines = [f"{'contender':46} {'launch':10} {'s':>8} {'s/1e9':>8} {'theirs/ours':>12}"]
        for row in steps:
            ratio = f"{row['over_ours']:.2f}" if "over_ours" in row else ""
            lines.append(
                f"{row['contender']:46} {row['launch']:10} {row['median_s']:8.4f} "
                f"{row['s_per_1e9']:8.4f} {ratio:>12}"
            )
        return "\n".join(lines)


def compare(
    report: Report,
    workload: Workload,
    gradients: list[torch.Tensor],
    mine: list[Contender],
    peer: Contender | None,
    arguments: argparse.Namespace,
) -> None:
    """One table block: ours and one peer, interleaved."""
    contenders = [*mine, *([peer] if peer is not None else [])]
    times = interleave(contenders, arguments.rounds, arguments.warmup)
    medians = [statistics.median(seconds) for seconds in times]
    best = min(medians[: len(mine)])
    for contender, seconds, median in zip(contenders, times, medians):
        extra = {} if isinstance(contender, Spillway) else {"over_ours": median / best}
        report.add(
            figure="step",
            contender=contender.name,
            against=peer.name if peer is not None else None,
            launch=arguments.launch,
            median_s=median,
            min_s=min(seconds),
            max_s=max(seconds),
            rounds=len(seconds),
            s_per_1e9=median / workload.num_elements * 1e9,
            states=contender.state_bits,
            note=contender.note,
            **extra,
            **contender.facts(),
        )


def run(arguments: argparse.Namespace, report: Report) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    workload = Workload(arguments.layers, arguments.hidden, arguments.ffn, device)
    report.add(
        figure="machine",
        gpu=torch.cuda.get_device_name(device),
        torch=torch.__version__,
        cores=len(os.sched_getaffinity(0)),
        torch_threads=torch.get_num_threads(),
        num_elements=workload.num_elements,
        **link_bandwidth(device),
    )
    gradients = workload.make_gradients()
    mine = [build(workload, gradients) for build in ours(arguments.updates, arguments.master)]
    report_transfers(report, workload, mine)
    builders = peers(arguments.peer_files)
    for name in arguments.peers:
        try:
            peer = builders[name](workload, gradients)
        except (MissingPeer, ImportError, OSError, RuntimeError) as error:
            report.add(figure="missing", contender=name, reason=str(error)[:500])
            continue
        compare(report, workload, gradients, mine, peer, arguments)
        del peer
        gc.collect()
        torch.cuda.empty_cache()
    if not arguments.peers:
        compare(report, workload, gradients, mine, None, arguments)


def report_transfers(report: Report, workload: Workload, mine: list[Contender]) -> None:
    """Bytes over the link in one step, as the engine counts them, and the time that they take at
    the bandwidth measured in this run: no step can be faster."""
    link = report.rows[0]
    for contender in mine:
        assert isinstance(contender, Spillway)
        contender.prepare()
        before = contender.device.transfers()
        contender.step()
        contender.finish()
        after = contender.device.transfers()
        out = after["to_host"] - before["to_host"]
        back = after["to_device"] - before["to_device"]
        report.add(
            figure="transfers",
            contender=contender.name,
            to_host_bytes_per_parameter=out / workload.num_elements,
            to_device_bytes_per_parameter=back / workload.num_elements,
            link_floor_s=max(out, back) / link["both_ways_each"],
        )


def run_as_torchrun_does(arguments: argparse.Namespace, report: Report) -> None:
    """The same in a process with one thread asked for, as torchrun sets it for every rank."""
    wanted = [name for name in arguments.peers if name.startswith("megatron")]
    command = [sys.executable, __file__, "--no-torchrun", "--launch", "torchrun"]
    for key in ("layers", "hidden", "ffn", "rounds", "warmup", "master"):
        command += [f"--{key}", str(getattr(arguments, key))]
    command += ["--updates", *arguments.updates, "--peer-files", str(arguments.peer_files)]
    command += ["--peers", *wanted]
    child = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for line in child.stdout.splitlines():
        if line.startswith("{"):
            report.add(**json.loads(line))


def main() -> None:
    arguments = parse_arguments()
    if not torch.cuda.is_available():
        sys.exit("A GPU is needed: the comparison is about copies between it and the host.")
    report = Report(arguments.out)
    run(arguments, report)
    if not arguments.no_torchrun and any(name.startswith("megatron") for name in arguments.peers):
        gc.collect()
        torch.cuda.empty_cache()
        run_as_torchrun_does(arguments, report)
    if arguments.launch == "all cores":
        print(report.table())


if __name__ == "__main__":
    main()
