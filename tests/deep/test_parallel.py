"""Two processes: DDP follows one process, and FSDP2 measures the norm of the whole model."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")

WORKER = """
import json, os, sys
import torch, torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from prgd import deep
from prgd.schedules import Every, Polynomial

kind, rank, size = sys.argv[1], int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if size > 1:
    dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(6, 16, bias=False), torch.nn.ReLU(), torch.nn.Linear(16, 3, bias=False)
)
inputs, targets = torch.randn(32, 6), torch.randint(0, 3, (32,))
part = slice(32 // size * rank, 32 // size * (rank + 1))
if kind == "ddp" and size > 1:
    model = DistributedDataParallel(model)
if kind == "fsdp" and size > 1:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.device_mesh import init_device_mesh
    model = fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
optimizer = deep.PRGD(model.parameters(), R=Polynomial(0.5), T=Every(4), warm_up=2, lr=0.1)
criterion, norms = optimizer.watch(cross_entropy), []
for t in range(14):
    optimizer.zero_grad()
    loss = criterion(model(inputs[part]), targets[part])
    loss.backward()
    if t == 9 and rank == 0:  # one process alone sees a fault: all must skip
        gradient = next(model.parameters()).grad
        getattr(gradient, "_local_tensor", gradient).view(-1)[0] = float("nan")
    if t == 9 and kind == "ddp":  # DDP has averaged by now: each replica has the same gradient
        next(model.parameters()).grad.view(-1)[0] = float("nan")
    optimizer.step(loss=loss) if t % 2 else optimizer.step()
    norms.append(optimizer.norm().item())
weights = [getattr(p, "full_tensor", lambda p=p: p)().detach().flatten().tolist() for p in model.parameters()]
if rank == 0:
    print(json.dumps({"norms": norms, "weights": sum(weights, []), "skipped": optimizer.skipped}), flush=True)
if size > 1:
    dist.barrier()
    dist.destroy_process_group()
os._exit(0)  # the interpreter's own end may abort while threads of gloo still run
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def train(kind, size):
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size)}
    common |= {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WORKER, kind]
    processes = [
        subprocess.Popen(
            command,
            env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        outputs = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert all(process.returncode == 0 for process in processes), [error for _, error in outputs]
    return json.loads(outputs[0][0])


@pytest.fixture(scope="module")
def one_process():
    return train("one", 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes_equal_one(kind, one_process):
    two = train(kind, 2)
    assert two["skipped"] == one_process["skipped"] == 1
    assert two["norms"] == pytest.approx(one_process["norms"], rel=1e-6)
    assert two["weights"] == pytest.approx(one_process["weights"], abs=1e-6)
