//! Ended while the power is off: promptly, with the exit code that the manual states, and nothing is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::survive::client::{READ, Request, WRITE};
use crate::survive::harness::{Guarded, Held, Scene, Served, can_mount, has, output, succeed, until};

/// A disk that has lost its power after the first requests, for as long as any test lasts.
const DEVICE: [&str; 5] = ["cheetah-36es", "--size", "64MiB", "--fault", "power_loss,at=1s,back_after=10h"];

const SIGNALS: [Signal; 2] = [Signal::INT, Signal::TERM];

fn serve(scene: &Scene, frontend: &[&str], socket: PathBuf) -> Served {
    let mut command = scene.seeklab();
    command.arg("serve").args(DEVICE).args(["--json", "--store"]).arg(format!("file:{}", scene.path("disk")));
    Served::start(command_with(command, frontend), socket)
}

fn command_with(mut command: Command, arguments: &[&str]) -> Command {
    command.args(arguments);
    command
}

/// Waits for the end of a child; its exit code.
fn ended(child: &mut Guarded) -> Option<i32> {
    let mut status = None;
    until(|| {
        status = child.0.try_wait().unwrap();
        status.map(drop).ok_or_else(|| "it does not end".to_owned())
    });
    status.unwrap().code()
}

fn exists(path: &Path) -> Result<(), String> {
    path.exists().then_some(()).ok_or_else(|| format!("{} does not appear", path.display()))
}

#[test]
fn serving_over_nbd_ends_while_the_power_is_off_and_begins_again() {
    for signal in SIGNALS {
        let scene = Scene::new("offnbd");
        let socket = scene.folder.path().join("nbd");
        let address = format!("unix:{}", socket.display());
        // The second run has the same command line, socket and store.
        for _ in 0..2 {
            let served = serve(&scene, &["--nbd", &address], socket.clone());
            let pid = served.pid();
            let mut client = served.connect();
            let mut writes =
                (0..).map(|number| client.call(&Request::new(WRITE, number, (number % 64) << 12, 4096)));
            let failed = writes.find(|reply| !reply.as_ref().is_ok_and(|reply| reply.error == 0));
            assert!(failed.unwrap().map_or(true, |reply| reply.error == 108), "ESHUTDOWN, or closed");
            assert!(served.try_connect().is_none(), "clients are refused while the power is off");
            let (code, document, errors) = served.end(signal);
            assert_eq!(code, Some(0), "{errors}");
            assert!(document["requests"].as_u64() > Some(0), "{document}");
            assert!(!socket.exists(), "its socket has gone");
            until(|| scene.left(pid, &Held::default()));
        }
    }
}

#[test]
fn client_that_is_killed_leaves_no_write_half_done_and_nothing_else() {
    if !has("client_that_is_killed_leaves_no_write_half_done_and_nothing_else", &["nbdsh"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Each takes 200 ms in the model: all are outstanding when the client is killed.
    let slow = ["constant", "--set", "service_time=200ms", "--size", "1MiB", "--fault", "power_loss,at=10h"];
    let served = Served::nbd(folder.path(), &slow);
    let descriptors = || fs::read_dir(format!("/proc/{}/fd", served.pid())).unwrap().count();
    let before = descriptors();
    let script = "\
import os, signal
for number in range(8):
    h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray([number + 1]) * 4096), number * 4096)
while h.aio_is_processing() or h.aio_in_flight() < 8:
    h.poll(100)
os.kill(os.getpid(), signal.SIGKILL)
";
    let arguments = ["PATH=/usr/bin:/bin", "nbdsh", "--uri", &served.place, "--command", script];
    let killed = output("env", &arguments);
    assert!(!killed.status.success(), "{killed:?}");
    until(|| match descriptors() {
        open if open <= before => Ok(()),
        open => Err(format!("{open} descriptors are open, {before} were")),
    });
    // Whole or not at all, and the device has received all of them.
    let mut client = served.connect();
    let read = client.call(&Request::new(READ, 1, 0, 8 * 4096)).unwrap();
    for (number, block) in read.data.chunks(4096).enumerate() {
        assert!(block == [number as u8 + 1; 4096] || block == [0; 4096], "block {number}");
    }
    drop(client);
    let document = served.interrupt();
    let requests = document["requests"].as_u64().unwrap();
    assert!(requests > 1 && document["undelivered_replies"].as_u64() >= Some(requests - 1), "{document}");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn serving_a_block_device_ends_while_the_power_is_off() {
    if !can_mount("serving_a_block_device_ends_while_the_power_is_off", &["dd"]) {
        return;
    }
    for signal in SIGNALS {
        let scene = Scene::new("offblock");
        for _ in 0..2 {
            let served = serve(&scene, &["--block"], PathBuf::new());
            let (pid, place) = (served.pid(), served.place.clone());
            let mut held = Held::default();
            held.look(pid);
            assert!(held.is_bound, "{held:?}");
            let from = format!("if={place}");
            until(|| {
                let read = output("dd", &[&from, "of=/dev/null", "bs=4k", "count=1", "iflag=direct"]);
                if read.status.success() { Err("the power is still on".to_owned()) } else { Ok(()) }
            });
            let (code, _, errors) = served.end(signal);
            assert_eq!(code, Some(0), "{errors}");
            until(|| scene.left(pid, &held));
        }
    }
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn mounted_block_device_ends_without_power_once_it_is_unmounted() {
    let name = "mounted_block_device_ends_without_power_once_it_is_unmounted";
    if !can_mount(name, &["mkfs.ext4", "mount", "umount", "dd"]) {
        return;
    }
    let scene = Scene::new("offmount");
    let place = scene.path("mount");
    fs::create_dir(&place).unwrap();
    // The file system is made before, on a device whose power stays on.
    let disk = scene.path("disk");
    fs::File::create(&disk).unwrap().set_len(64 << 20).unwrap();
    succeed("mkfs.ext4", &["-q", "-F", &disk]);
    let served = serve(&scene, &["--block"], PathBuf::new());
    let pid = served.pid();
    let mut held = Held::default();
    held.look(pid);
    assert!(held.is_bound, "{held:?}");
    if !output("mount", &[&served.place, &place]).status.success() {
        // A second for a mount: a busy machine may take longer.
        eprintln!("skipped: {name}: the power went before the file system was mounted");
        served.end(Signal::INT);
        return;
    }
    let file = format!("of={place}/file");
    until(|| {
        match output("dd", &["if=/dev/zero", &file, "bs=64k", "count=1", "conv=fsync"]).status.success() {
            true => Err("the power is still on".to_owned()),
            false => Ok(()),
        }
    });
    served.child.signal(Signal::INT);
    // It serves on while somebody has the device mounted, and the file system can be unmounted.
    succeed("umount", &[&place]);
    let mut child = served.child;
    assert_eq!(ended(&mut child), Some(0));
    until(|| scene.left(pid, &held));
}

/// A command that writes until a write fails, then makes the file `off`, and stays.
fn command_line(scene: &Scene) -> String {
    let notice = scene.path("off");
    format!(
        "while dd if=/dev/zero of=file bs=64k count=4 conv=fsync 2>/dev/null; do :; done; touch {notice}; exec sleep 1000"
    )
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn run_of_a_command_ends_while_the_power_is_off() {
    if !can_mount("run_of_a_command_ends_while_the_power_is_off", &["mkfs.ext4", "dd"]) {
        return;
    }
    for signal in SIGNALS {
        let scene = Scene::new("offrun");
        let mut command = scene.seeklab();
        command.arg("run").args(DEVICE).args(["--json", "--", "sh", "-c", &command_line(&scene)]);
        let output = fs::File::create(scene.path("output")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let mut run = Guarded(command.spawn().unwrap());
        let pid = run.0.id();
        let off = PathBuf::from(scene.path("off"));
        until(|| exists(&off));
        let mut held = Held::default();
        held.look(pid);
        run.signal(signal);
        let code = ended(&mut run);
        assert_eq!(code, Some(1), "{}", fs::read_to_string(scene.path("output")).unwrap());
        until(|| scene.left(pid, &held));
    }
}

#[test]
fn run_of_a_built_in_application_ends_while_the_power_is_off_and_survives_if_it_comes_back() {
    let run = |scene: &Scene, fault: &str| {
        let mut command = scene.seeklab();
        command.args(["run", "cheetah-36es", "--size", "64MiB", "--json", "--fault", fault]);
        command.args([
            "--builtin",
            "database,transactions=400,table=4MiB,pool=1MiB",
            "--events",
            &scene.path("events"),
        ]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Guarded(command.spawn().unwrap())
    };
    for signal in SIGNALS {
        let scene = Scene::new("offbuiltin");
        let mut child = run(&scene, "power_loss,at=500ms,back_after=10h");
        let pid = child.0.id();
        // The power is off when the events of the loss are written, a little later.
        let events = PathBuf::from(scene.path("events"));
        until(|| exists(&events));
        std::thread::park_timeout(std::time::Duration::from_millis(1_500));
        child.signal(signal);
        assert_eq!(ended(&mut child), Some(1));
        until(|| scene.left(pid, &Held::default()));
    }
    let scene = Scene::new("back");
    let mut child = run(&scene, "power_loss,at=500ms,back_after=200ms,repeat=1s");
    let pid = child.0.id();
    let document: serde_json::Value = serde_json::from_reader(child.0.stdout.take().unwrap()).unwrap();
    assert!(child.0.wait().unwrap().success(), "{document:#}");
    let repetition = &document["devices"][0]["repetitions"][0];
    assert!(repetition["reconnections"].as_u64() >= Some(1), "{repetition:#}");
    assert!(repetition["failed_requests"].as_u64() >= Some(1), "{repetition:#}");
    assert_eq!(repetition["exit_code"], 0);
    until(|| scene.left(pid, &Held::default()));
}

#[test]
fn built_in_application_ends_where_the_device_does_not_come_back() {
    let scene = Scene::new("gone");
    let mut command = scene.seeklab();
    command.args([
        "run",
        "immediate",
        "--size",
        "64MiB",
        "--json",
        "--fault",
        "gone,at=300ms",
        "--reconnect",
        "200ms",
    ]);
    command.args([
        "--fault",
        "delay,add=1ms",
        "--builtin",
        "database,transactions=4000,table=4MiB,pool=1MiB",
    ]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("has taken no other for 0.2 s") && errors.contains("--reconnect"), "{errors}");
    until(|| scene.left(u32::MAX, &Held::default()));
}
