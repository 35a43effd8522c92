"""An emulated disk of `seeklab serve`, and what `seeklab bench` and fio measure of it, for the figures of SPEK."""
import contextlib
import json
import pathlib
import signal
import subprocess
import sys


def arguments(seconds=None):
    """The folder of the results, which is made, the program, and the seconds of a run, as the command line says."""
    given = dict(enumerate(sys.argv))
    folder = pathlib.Path(given.get(1, "."))
    folder.mkdir(parents=True, exist_ok=True)
    return folder, given.get(2, "seeklab"), int(given.get(3, seconds or 0))


@contextlib.contextmanager
def emulated(seeklab, device, *options):
    """Serves a device, as `options` say. Gives where it is reached, and a report that is filled at the end."""
    command = [seeklab, "serve", device, "--json", *options]
    report = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            # It says when it is ready, and where.
            ready = next((line for line in server.stderr if " is ready: " in line), None)
            if ready is None:
                sys.exit(f"{' '.join(command)}: ended with {server.wait()}")
            yield ready.split(" is ready: ")[1].strip(), report
        finally:
            server.send_signal(signal.SIGTERM)
            out, _ = server.communicate()
            report.update(json.loads(out or "{}"))


def bench(seeklab, target, workload, *options):
    """Figures of `seeklab bench`."""
    command = [seeklab, "bench", target, "-w", workload, "--json", "-q", *options]
    if "read=100%" not in workload and ":" not in target.split("/")[0]:
        command += ["--destroy", target]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: ended with {done.returncode}")
    return json.loads(done.stdout)


def fio(*options):
    """Figures of the only job of fio: those of its reads if it reads, else of its writes, and its processor time in percent."""
    command = ["fio", "--name=x", "--thread", "--group_reporting", "--time_based", "--output-format=json", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: ended with {done.returncode}")
    return of_job(done.stdout)


def of_job(document):
    """Figures in a document of fio, which may follow messages of its engines."""
    job = json.loads(document[document.index("{"):])["jobs"][0]
    figures = job["read"] if job["read"]["total_ios"] else job["write"]
    return {**figures, "cpu_pct": job["usr_cpu"] + job["sys_cpu"]}


def print_table(columns, rows):
    """Prints a table as Markdown."""
    for row in [columns, ["---"] * len(columns), *rows]:
        print(f"| {' | '.join(row)} |", flush=True)
