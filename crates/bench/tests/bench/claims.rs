//! Leave to write: refused if the target is used, and given to who names what is lost.

use std::path::Path;
use std::process::{Command, Stdio};

use seeklab_bench::{ClaimOptions, claim, signature_of};

fn refused(path: &Path, destroy: Option<&str>) -> String {
    let address = path.to_str().unwrap();
    let error =
        claim(ClaimOptions { address, path: Some(path), destroy, is_own: false, is_expendable: false })
            .unwrap_err();
    format!("{error}; {}", error.hint().unwrap_or_default())
}

/// Runs a program; false, with the reason on stderr, if it is not there or fails.
fn ran(command: &mut Command) -> bool {
    let name = command.get_program().to_string_lossy().into_owned();
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let status =
        command.env("PATH", path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_done = status.as_ref().is_ok_and(|status| status.success());
    if !is_done {
        eprintln!("skipped: {name}: {status:?}");
    }
    is_done
}

#[test]
fn contents_made_by_their_own_programs_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    let mut found = 0;
    for (program, arguments, name) in [
        ("mkfs.ext4", &["-q", "-F"][..], "ext4"),
        ("mkfs.xfs", &["-q", "-f"], "XFS"),
        ("mkfs.btrfs", &["-q", "-f"], "btrfs"),
        ("mkswap", &[], "swap"),
        ("mkfs.vfat", &[], "FAT"),
    ] {
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(512 << 20).unwrap();
        assert_eq!(signature_of(&image).unwrap(), None);
        if ran(Command::new(program).args(arguments).arg(&image)) {
            let signature = signature_of(&image).unwrap().expect(program);
            assert!(signature.name.contains(name), "{program}: {signature}");
            let error = refused(&image, None);
            assert!(error.contains(signature.name) && error.contains("--destroy"), "{error}");
            found += 1;
        }
        std::fs::remove_file(&image).unwrap();
    }
    if found == 0 {
        eprintln!("skipped: no program that makes a file system");
    }
}

#[test]
fn name_must_be_typed_again_exactly() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path();
    let address = path.to_str().unwrap();
    assert!(refused(path, None).contains(&format!("--destroy {address}")));
    assert!(refused(path, Some("/dev/other")).contains("names `/dev/other`, another target"));
    let options = ClaimOptions {
        address,
        path: Some(path),
        destroy: Some(address),
        is_own: false,
        is_expendable: false,
    };
    assert!(claim(options).is_ok());
    let own = ClaimOptions { destroy: None, is_own: true, ..options };
    assert!(claim(own).is_ok());
    let expendable = ClaimOptions { destroy: None, is_expendable: true, ..options };
    assert!(claim(expendable).is_ok());
    let other = ClaimOptions { destroy: Some("/dev/other"), ..expendable };
    assert!(claim(other).unwrap_err().to_string().contains("another target"));
    let export = ClaimOptions {
        address: "nbd://host/",
        path: None,
        destroy: None,
        is_own: false,
        is_expendable: false,
    };
    assert!(claim(export).unwrap_err().to_string().contains("its contents"));
}

/// A loop device that is detached when this is dropped.
struct Loop(String);

impl Loop {
    fn attach(image: &Path) -> Option<Self> {
        let output = Command::new("/sbin/losetup").args(["-f", "--show"]).arg(image).output();
        let name = output.ok().filter(|output| output.status.success())?.stdout;
        Some(Self(String::from_utf8(name).ok()?.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        ran(Command::new("losetup").args(["-d", &self.0]));
    }
}

#[test]
fn read_only_devices_are_refused_whatever_is_typed() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let Some(device) = Loop::attach(&image) else {
        eprintln!("skipped: no loop device for this user");
        return;
    };
    if ran(Command::new("blockdev").args(["--setro", &device.0])) {
        let error = refused(Path::new(&device.0), Some(&device.0));
        assert!(
            error.contains("is read-only, and the workload writes") && error.contains("read=100%"),
            "{error}"
        );
    }
}

#[test]
fn used_devices_and_files_are_refused_whatever_is_typed() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let Some(device) = Loop::attach(&image) else {
        eprintln!("skipped: no loop device for this user");
        return;
    };
    let error = refused(&image, image.to_str());
    assert!(error.contains(&format!("is attached to {}", device.0)), "{error}");
    let path = Path::new(&device.0);
    if !ran(Command::new("mkfs.ext4").args(["-q", "-F", &device.0])) {
        return;
    }
    let claimed = claim(ClaimOptions {
        address: &device.0,
        path: Some(path),
        destroy: Some(&device.0),
        is_own: false,
        is_expendable: false,
    });
    let point = directory.path().join("mounted");
    std::fs::create_dir(&point).unwrap();
    let mount =
        || Command::new("mount").arg(&device.0).arg(&point).stderr(Stdio::null()).status().unwrap().success();
    assert!(claimed.is_ok() && !mount(), "nobody mounts it while it is claimed");
    drop(claimed);
    if !mount() {
        eprintln!("skipped: it cannot be mounted");
        return;
    }
    let error = refused(path, Some(&device.0));
    assert!(error.contains(&format!("is mounted on {}", point.display())), "{error}");
    assert!(ran(Command::new("umount").arg(&point)));
}
