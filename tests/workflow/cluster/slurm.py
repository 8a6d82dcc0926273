"""A real Slurm on this machine: one controller, two nodes, two stand-ins for GPUs on each.

    python tests/workflow/cluster/slurm.py start [FOLDER]     and stop, to try things by hand

Everything lies in one folder and listens on the loopback interface only, with a key of its own.
What it must put elsewhere is the link /etc/slurm/slurm.conf, since job steps lose the variable
SLURM_CONF; it is made where nothing is there, and removed by `stop`. Needs root, and Debian's
packages munge, slurmctld, slurmd and slurm-client.
"""

import contextlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

LINK = Path("/etc/slurm/slurm.conf")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue")
NODES = ("n1", "n2")
GPUS, CPUS, MEMORY_MB = 2, 2, 64000
PORT = 16817
CONFIGURATION = """
ClusterName=flatlab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.sock
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
# Nothing is asked of the kernel's control groups, so that this also runs in a container. A job that
# takes more memory than it asked for is killed by the gathering of accounts instead.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MinJobAge=3600
MpiDefault=none
GresTypes=gpu
AccountingStorageType=accounting_storage/none
PartitionName=cpu Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=5
PartitionName=gpu Nodes=ALL MaxTime=INFINITE DefaultTime=5
"""


def why_not():
    """Why no Slurm can be started here; empty where it can."""
    missing = [program for program in PROGRAMS if not _which(program)]
    if missing:
        return f"no {', '.join(missing)}: apt-get install munge slurmctld slurmd slurm-client"
    if os.geteuid() != 0:
        return "the daemons of Slurm are started as root"
    if LINK.exists():
        return f"{LINK} is there: this machine has a Slurm"
    return ""


def _which(program):
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def until(true, what, seconds=30):
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:.0f} s: {what}")
        time.sleep(0.1)


class Slurm:
    """The cluster whose files are in `folder`."""

    def __init__(self, folder):
        self.folder = folder

    def start(self):
        """Write the configuration and start all daemons."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir(exist_ok=True)
        self._configure()
        LINK.parent.mkdir(exist_ok=True)
        LINK.symlink_to(self.folder / "slurm.conf")
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        names = ("key-file=munge.key", "socket=munge.sock", "pid-file=munged.pid")
        names += ("log-file=munged.log", "seed-file=munged.seed")
        files = [f"--{name.replace('=', f'={self.folder}/')}" for name in names]
        self._daemon("munged", "--force", *files)
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        until(lambda: self("sinfo", "-hN", "-p", "cpu", "-t", "idle").count("\n") == 2, "no nodes")

    def _configure(self):
        host = platform.node().split(".")[0]
        lines = [CONFIGURATION.format(host=host, folder=self.folder, port=PORT)]
        for number, node in enumerate(NODES, start=1):
            lines.append(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={PORT + number} "
                f"CPUs={CPUS} RealMemory={MEMORY_MB} Gres=gpu:fake:{GPUS}\n"
            )
        (self.folder / "slurm.conf").write_text("".join(lines))
        for number in range(GPUS):  # what looks like a device; a plain file is refused
            device = self.folder / f"gpu{number}"
            if not device.exists():
                os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))
        (self.folder / "gres.conf").write_text(
            f"AutoDetect=off\nNodeName=n[1-2] Name=gpu Type=fake "
            f"File={self.folder}/gpu[0-{GPUS - 1}] Flags=nvidia_gpu_env\n"  # CUDA_VISIBLE_DEVICES
        )

    def _daemon(self, program, *arguments):
        path = _which(program)
        assert path
        where = {**os.environ, "SLURM_CONF": f"{self.folder}/slurm.conf"}  # gres.conf is beside it
        command = [path, *arguments]
        subprocess.run(command, env=where, check=True, timeout=30, stdin=subprocess.DEVNULL)

    def start_controller(self):
        """Start slurmctld and wait until it answers."""
        self._daemon("slurmctld")
        until(lambda: "UP" in self("scontrol", "ping"), "slurmctld does not answer")

    def start_node(self, node):
        """Start one node's slurmd."""
        self._daemon("slurmd", "-N", node)

    def pid(self, daemon):
        """The process of a daemon: munged, slurmctld, slurmd-n1, slurmd-n2."""
        try:
            pid = int((self.folder / f"{daemon}.pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ValueError):
            return None
        return pid if daemon.split("-")[0].encode() in command else None

    def kill(self, daemon, number=signal.SIGTERM):
        """End one daemon."""
        if pid := self.pid(daemon):
            os.kill(pid, number)
            until(lambda: self.pid(daemon) is None, f"{daemon} does not end")

    def stop(self):
        """Cancel all jobs and end all daemons."""
        with contextlib.suppress(subprocess.SubprocessError, TimeoutError):
            if self.pid("slurmctld"):
                self("scancel", "--user=root")
                until(lambda: not self("squeue", "-h"), "jobs do not end", 15)
        for daemon in (*(f"slurmd-{node}" for node in NODES), "slurmctld", "munged"):
            try:
                self.kill(daemon)
            except TimeoutError:
                self.kill(daemon, signal.SIGKILL)
        if LINK.is_symlink() and LINK.readlink() == self.folder / "slurm.conf":
            LINK.unlink()

    def __call__(self, *command):
        """What a command of Slurm prints."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.stdout


if __name__ == "__main__":
    action, *rest = sys.argv[1:] or ["start"]
    cluster = Slurm(Path(*rest) if rest else Path("/tmp/flatlab-slurm"))
    if action == "start" and (reason := why_not()):
        sys.exit(reason)
    getattr(cluster, action)()
