//! Kernel interfaces of the loop device that no safe crate offers: four ioctls, and a private descriptor
//! table.
#![expect(unsafe_code, reason = "ioctl(2), and unshare(2) of the descriptor table")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::signal::SigSet;
use rustix::fs::{Dir, Mode, OFlags, open};
use rustix::ioctl::{IntegerSetter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::Settings;

/// `struct loop_config`: descriptor and block size, a `struct loop_info64`, eight reserved words.
type Config = [u8; 304];

const LOOP_CONFIGURE: Opcode = 0x4c0a;
const LOOP_CTL_ADD: Opcode = 0x4c80;
const LOOP_CTL_REMOVE: Opcode = 0x4c81;
const LOOP_CTL_GET_FREE: Opcode = 0x4c82;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Offsets of `lo_flags` and `lo_file_name`.
const FLAGS_AT: usize = 8 + 52;
const NAME_AT: usize = 8 + 56;
const NAME_SIZE: usize = 64;

/// Binds a device to a file: direct I/O, gone with its last user, partitions not looked for.
pub(super) fn configure(
    device: &OwnedFd,
    file: &OwnedFd,
    name: &str,
    settings: &Settings,
) -> rustix::io::Result<()> {
    let mut config: Config = [0; 304];
    let mut flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    if settings.read_only {
        flags |= LO_FLAGS_READ_ONLY;
    }
    // With the NUL behind it.
    let name = &name.as_bytes()[..name.len().min(NAME_SIZE - 1)];
    config[..4].copy_from_slice(&file.as_raw_fd().to_ne_bytes());
    config[4..8].copy_from_slice(&settings.block_size_bytes.to_ne_bytes());
    config[FLAGS_AT..][..4].copy_from_slice(&flags.to_ne_bytes());
    config[NAME_AT..][..name.len()].copy_from_slice(name);
    // SAFETY: LOOP_CONFIGURE reads a `struct loop_config`, which has this size, and writes nothing.
    unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, Config>::new(config)) }
}

/// LOOP_CTL_GET_FREE: its result is the number.
struct GetFree(NoArg<LOOP_CTL_GET_FREE>);

// SAFETY: the command takes no argument, touches no memory of ours and returns a number or an error.
unsafe impl Ioctl for GetFree {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        self.0.opcode()
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut std::ffi::c_void) -> rustix::io::Result<u32> {
        Ok(output as u32)
    }
}

/// The number of a device that nobody uses, made if there was none.
pub(super) fn free_device(control: &OwnedFd) -> rustix::io::Result<u32> {
    // SAFETY: the opcode is one of /dev/loop-control's and takes no argument.
    unsafe { ioctl(control, GetFree(NoArg::new())) }
}

/// Takes a device away that nobody uses and makes it anew, so that the kernel forgets what it measured under its last
/// user: above all the bandwidth of its writes, by which it slows writers down. Fails if it is in use, and changes
/// nothing then.
pub(super) fn renew_device(control: &OwnedFd, number: u32) -> rustix::io::Result<()> {
    // SAFETY: both opcodes are of /dev/loop-control and take a number.
    unsafe { ioctl(control, IntegerSetter::<LOOP_CTL_REMOVE>::new_usize(number as usize)) }?;
    // SAFETY: as above.
    unsafe { ioctl(control, IntegerSetter::<LOOP_CTL_ADD>::new_usize(number as usize)) }
}

/// Gives the calling thread a descriptor table of its own, in which only `descriptor` and the standard streams
/// are left. `descriptor` must be open in the table that the thread comes from.
///
/// The thread blocks all signals from then on: a handler that wakes another thread by a descriptor would find it
/// closed, or another file under its number, and the signal would be lost.
pub(crate) fn own_descriptor_only(descriptor: RawFd) -> io::Result<OwnedFd> {
    SigSet::all().thread_block()?;
    // SAFETY: this thread owns no descriptor: it was just started and was given the number only. What other
    // threads own stays open in their table.
    unsafe { unshare_unsafe(UnshareFlags::FILES) }?;
    // SAFETY: in the new table, the number is open, and it is this thread's alone.
    let kept = unsafe { OwnedFd::from_raw_fd(descriptor) };
    for number in others_open(&kept)? {
        // SAFETY: a copy that nobody owns, open in this table, which no other thread changes.
        unsafe { rustix::io::close(number) };
    }
    Ok(kept)
}

/// The descriptors that this thread has open beside `kept` and the standard streams.
fn others_open(kept: &OwnedFd) -> io::Result<Vec<RawFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = Dir::new(open("/proc/thread-self/fd", flags, Mode::empty())?)?;
    let own = folder.fd()?.as_raw_fd();
    let mut others = Vec::new();
    for entry in folder {
        // Beside the numbers, there are `.` and `..`.
        if let Ok(number) = entry?.file_name().to_string_lossy().parse::<RawFd>()
            && number > 2
            && ![own, kept.as_raw_fd()].contains(&number)
        {
            others.push(number);
        }
    }
    Ok(others)
}
