//! A private instance of the kernel's trace buffer in tracefs.
//!
//! ```text
//!  instances/seeklab-PID-N/   trace_clock = mono, overwrite, one buffer for each processor
//!     per_cpu/cpu0/trace_pipe_raw ─▶ pages
//! ```
//! # Scope and limits
//! Dropping this value removes the instance. If the process is killed, the kernel frees the buffers and stops the
//! recording (`free_buffer`). The next capture removes the empty instance.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::device::processors;
use super::error::CaptureError;
use super::pages::PageLayout;

/// Bytes that all buffers may have together, where the size is not given, and those of one.
const BUFFERS_BYTES: usize = 64 << 20;
const BUFFER_BYTES_MAX: usize = 16 << 20;
const BUFFER_BYTES_MIN: usize = 1 << 20;
/// Start of the name of an instance; the process that made it follows.
const PREFIX: &str = "seeklab-";
/// Pages of one processor that are taken together, so that one busy processor does not keep the others waiting.
pub(super) const PAGES_MAX: usize = 8192;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// An instance of the kernel's trace buffer.
pub(super) struct Instance {
    /// The processors, and the pages of each.
    pub(super) readers: Vec<(u32, File)>,
    /// Frees the buffers when the process ends.
    free: Option<File>,
    folder: PathBuf,
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CaptureError {
    let path = path.to_owned();
    move |source| CaptureError::Tracefs { path, source }
}

/// A file of the kernel that answers the first read only.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut text = vec![0; 4096];
    let length = File::open(path)?.read(&mut text)?;
    text.truncate(length);
    String::from_utf8(text).map_err(io::Error::other)
}

impl Instance {
    /// Reads the form of the pages.
    pub(super) fn page_layout(tracefs: &Path) -> Result<PageLayout, CaptureError> {
        Ok(Self::described_layout(tracefs)?.0)
    }

    /// Reads the form of the pages. Returns the kernel's description, too.
    pub(super) fn described_layout(tracefs: &Path) -> Result<(PageLayout, String), CaptureError> {
        let header = tracefs.join("events/header_page");
        let text = read_at_once(&header).map_err(failed(&header))?;
        let layout = PageLayout::parse(&text);
        Ok((layout.map_err(|problem| CaptureError::Description { path: header, problem })?, text))
    }

    /// Makes an instance that records nothing yet, with `buffer_bytes` for each processor.
    pub(super) fn create(tracefs: &Path, buffer_bytes: Option<usize>) -> Result<Self, CaptureError> {
        let processors = processors()?;
        let bytes = buffer_bytes
            .unwrap_or_else(|| (BUFFERS_BYTES / processors.len()).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = tracefs.join("instances").join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&folder).map_err(failed(&folder))?;
        let mut this = Self { readers: Vec::new(), free: None, folder };
        // From here on, what was made goes when `this` does.
        this.set_up(&processors, bytes)?;
        Ok(this)
    }

    fn set_up(&mut self, processors: &[u32], bytes: usize) -> Result<(), CaptureError> {
        self.write("trace_clock", "mono")?;
        self.write("options/overwrite", "1")?;
        fs::write(self.folder.join("buffer_size_kb"), bytes.div_ceil(1024).max(8).to_string())
            .map_err(|source| CaptureError::Buffers { buffers: processors.len(), bytes, source })?;
        let free = self.folder.join("free_buffer");
        self.free = Some(OpenOptions::new().write(true).open(&free).map_err(failed(&free))?);
        // Whether the recording stops too when the buffers are freed; where there is no such option, the
        // events go on into the smallest of buffers.
        let _ = fs::write(self.folder.join("options/disable_on_free"), "1");
        for processor in processors {
            let path = self.folder.join(format!("per_cpu/cpu{processor}/trace_pipe_raw"));
            let nonblocking =
                i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).expect("it is a small number");
            let reader = OpenOptions::new().read(true).custom_flags(nonblocking).open(&path);
            self.readers.push((*processor, reader.map_err(failed(&path))?));
        }
        Ok(())
    }

    /// Folder of the instance.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes to a file of the instance.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), CaptureError> {
        let path = self.folder.join(file);
        fs::write(&path, text).map_err(failed(&path))
    }

    /// Returns the number of lost events of each processor, as the kernel counts them.
    pub(super) fn lost(&self) -> BTreeMap<u32, u64> {
        let counted = |processor: u32| -> Option<u64> {
            let path = self.folder.join(format!("per_cpu/cpu{processor}/stats"));
            let text = fs::read_to_string(path).ok()?;
            let count = |line: &str| {
                let (name, value) = line.split_once(':')?;
                let loses = matches!(name, "overrun" | "commit overrun" | "dropped events");
                loses.then(|| value.trim().parse::<u64>().ok()).flatten()
            };
            Some(text.lines().filter_map(count).sum())
        };
        let all = self.readers.iter().map(|(processor, _)| (*processor, counted(*processor).unwrap_or(0)));
        all.collect()
    }
}

/// Removes what captures that were killed have left.
pub(super) fn remove_orphans(tracefs: &Path) {
    // The inode of the initial namespace is fixed: PROC_PID_INIT_INO of the kernel. In another namespace, /proc lacks
    // processes that live, whose recordings are not ours to remove.
    let namespace = fs::read_link("/proc/self/ns/pid");
    if !namespace.is_ok_and(|namespace| namespace.as_os_str() == "pid:[4026531836]") {
        return;
    }
    let Ok(entries) = fs::read_dir(tracefs.join("instances")) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let process =
            process.and_then(|rest| rest.split('-').next()).and_then(|text| text.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.readers.clear();
        self.free = None;
        // The kernel may hold on to it for a moment.
        if fs::remove_dir(&self.folder).is_err() {
            let _ = fs::remove_dir(&self.folder);
        }
    }
}
