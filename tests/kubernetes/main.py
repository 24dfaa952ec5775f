"""The CSI driver at a real control plane of Kubernetes, with the sidecars that its manifest names; scripts/test-kubernetes starts it."""

import argparse
import ctypes
import faulthandler
import os
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import check_attachments
import check_burst
import check_changes
import check_claims
import check_end
import check_install
import check_snapshots
from control_plane import ControlPlane
from processes import Processes
from report import Failed, Report
from storage import Storage
from world import World

PR_SET_PDEATHSIG = 1


def chapters(given):
    groups = check_snapshots.GROUPS if given.groups else []
    return [
        *check_claims.CHAPTERS, *check_changes.CHAPTERS, *check_snapshots.CHAPTERS, *groups, *check_attachments.CHAPTERS,
        *check_burst.CHAPTERS, *check_end.CHAPTERS,
    ]


def options():
    parser = argparse.ArgumentParser(prog="scripts/test-kubernetes", description=__doc__)
    parser.add_argument("--claims", type=int, default=1000, metavar="N", help="claims of the burst, 50 to 1000 [default: 1000]")
    parser.add_argument("--attachments", type=int, default=1000, metavar="N", help="of them so many are attached and detached [default: 1000]")
    parser.add_argument("--manager-qps", type=int, default=20, metavar="N",
                        help="requests a second of each of kube-controller-manager's controllers [default: 20, as its own]")
    parser.add_argument("--only", metavar="WORDS", help="only chapters whose name has these words; several are separated by commas")
    parser.add_argument("--list", action="store_true", help="name the chapters")
    parser.add_argument("--logs", metavar="DIR", help="where the logs of all processes go to at the end")
    parser.add_argument("--groups", action="store_true", help="with the chart, by Helm, and groups of snapshots, in place of the plain manifest")
    parser.add_argument("--helm", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--tools", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--binary", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def interrupted(number, _frame):
    sys.exit(f"ended by {signal.Signals(number).name}")


def chapter(report, name, run):
    """A chapter that fails leaves the others their turn."""
    report.begin(name)
    begun = time.monotonic()
    try:
        return run()
    except Failed as why:
        report.fail(why)
    except Exception as why:  # noqa: BLE001 - it is told, and fails the run
        traceback.print_exc(file=sys.stdout)
        report.fail(f"{type(why).__name__}: {why}")
    finally:
        report.seconds[name] = time.monotonic() - begun
    return None


def test(given, processes, report):
    plane = ControlPlane(processes, given.tools, given.work / "kubernetes", given.manager_qps)
    storage = Storage(processes, given.binary, given.work / "amita", plane.authority)

    def begin():
        begun = time.monotonic()
        plane.start(check_install.WATCHED)
        version = plane.api.ask("GET", "/version")["gitVersion"]
        report.ok("a control plane of Kubernetes", f"{version}, after {time.monotonic() - begun:.1f} s")
        storage.start()
        report.ok("a cluster of Amita", f"3 nodes, {len(storage.apis)} addresses of the API")
        check_install.snapshot_controller(plane, processes)
        report.ok("the controller of snapshots and its CRDs")
        return True

    if not chapter(report, "what is started", begin):
        return
    controllers = chapter(report, "the manifest is installed", lambda: check_install.install(plane, storage, processes, report, given))
    if not controllers:
        return
    world = World(plane, storage, controllers, processes, report, given)
    world.furnish()
    for name, run in chapters(given):
        if given.only is None or any(words in name for words in given.only.split(",")):
            failed = len(report.failures)
            chapter(report, name, lambda run=run: run(world))
            if len(report.failures) > failed:
                world.clear()


def main():
    given = options()
    if given.list:
        print("\n".join(name for name, _ in chapters(given)))
        return 0
    if not 50 <= given.claims <= 1000 or given.attachments < 50:
        # Fewer are done before anybody is killed; and a cluster publishes 1,024 volumes.
        sys.exit("scripts/test-kubernetes: --claims is 50 to 1000, --attachments 50 at least")
    faulthandler.enable()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    # As if whoever has started it had said so.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    # Programs run as other users; they reach what is theirs below.
    os.chmod(given.work, 0o711)
    processes, report = Processes(given.work / "logs"), Report()
    begun = time.monotonic()
    try:
        print("\n".join(line.strip() for line in (given.tools / "versions").read_text().splitlines()), flush=True)
        test(given, processes, report)
        code = report.end()
        if code:
            for process in processes.all:
                if "csi" in process.name or process.ended() is not None:
                    print(f"\n-- the last of {process.log.name}\n{process.last_words(6)}")
        print(f"{time.monotonic() - begun:.0f} s", flush=True)
        return code
    finally:
        processes.end()
        if given.logs:
            shutil.copytree(processes.logs, given.logs, dirs_exist_ok=True)
        shutil.rmtree(given.work, ignore_errors=True)


sys.exit(main())
