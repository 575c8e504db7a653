"""Two processes: DDP follows one process, and FSDP2 measures the norm of the whole model."""

import json
import os
import socket
import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")

WORKER = """
import json, os
import torch, torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from prgd import deep
from prgd.schedules import Every, Polynomial

rank, found = int(os.environ["RANK"]), {}
for kind in ("alone", "ddp", "fsdp"):
    if kind == "ddp":
        dist.init_process_group("gloo")
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    layers = torch.nn.Linear(6, 16, bias=False), torch.nn.ReLU(), torch.nn.Linear(16, 3, bias=False)
    model = torch.nn.Sequential(*layers)
    inputs, targets = torch.randn(32, 6), torch.randint(0, 3, (32,))
    part = slice(None) if kind == "alone" else slice(16 * rank, 16 * (rank + 1))
    if kind != "alone":
        model = DistributedDataParallel(model) if kind == "ddp" else fully_shard(model, mesh=mesh)
    norms = []
    for relative in (False, True):  # the second time on from the parameters of the first
        options = {"scope": "matrix", "relative_steps": True} if relative else {"warm_up": 2}
        optimizer = deep.PRGD(model.parameters(), R=Polynomial(0.5), T=Every(4), lr=0.1, **options)
        criterion = optimizer.watch(cross_entropy)
        for t in range(14):
            optimizer.zero_grad()
            loss = criterion(model(inputs[part]), targets[part])
            loss.backward()
            if t == 9 and (rank == 0 or kind == "alone"):  # one process alone sees a fault: all must skip
                gradient = next(model.parameters()).grad
                getattr(gradient, "_local_tensor", gradient).view(-1)[0] = float("nan")
            if t == 9 and kind == "ddp":  # DDP has averaged by now: each replica has the same gradient
                next(model.parameters()).grad.view(-1)[0] = float("nan")
            optimizer.step(loss=loss) if t % 2 else optimizer.step()
            norms += torch.atleast_1d(optimizer.norm()).tolist()
        assert optimizer.skipped == 1
    full = [getattr(p, "full_tensor", lambda p=p: p)().detach().flatten() for p in model.parameters()]
    found[kind] = {"norms": norms, "weights": torch.cat(full).tolist()}
if rank == 0:
    print(json.dumps(found), flush=True)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # the interpreter's own end may abort while threads of gloo still run
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.slow
def test_two_processes_equal_one():
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    environment = os.environ | common | {"OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert all(process.returncode == 0 for process in processes), [error for _, error in outputs]
    found = json.loads(outputs[0][0])
    for kind in ("ddp", "fsdp"):
        assert found[kind]["norms"] == pytest.approx(found["alone"]["norms"], rel=1e-6)
        assert found[kind]["weights"] == pytest.approx(found["alone"]["weights"], abs=1e-6)
