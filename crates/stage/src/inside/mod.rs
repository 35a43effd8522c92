//! The process inside: PID 1 of the pid namespace, owner of the mount namespace, reaper of what runs.
//!
//! One thread, one request at a time; a stop is noticed wherever it waits for processes.

mod attend;
mod mounts;
mod run;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use seeklab_core::Duration;

use crate::error::Trouble;
use crate::wire::{Lines, Reply, Request, Setting, receive_descriptors, send};

use self::mounts::Mounts;

/// The whole life of the process; returns its exit code.
pub(crate) fn main() -> i32 {
    // If the caller died before this took effect, its end of the socket is closed, and that ends us too.
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err()
        || rustix::process::getpid().as_raw_nonzero().get() != 1
    {
        eprintln!("error: `{}` is how seeklab starts itself; it is not a verb", crate::wire::INSIDE);
        return 2;
    }
    crate::os::restore_default_dispositions();
    // Else it would be called `exe`.
    let _ = rustix::thread::set_name(c"seeklab-stage");
    serve().unwrap_or(2)
}

/// Serves the caller's requests and returns the exit code, or `None` if the caller is gone.
fn serve() -> Option<i32> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
    let stream = UnixStream::from(socket);
    let standard = receive_descriptors(&stream).ok()?;
    let mut control = Control { lines: Lines::new(stream), stops: 0 };
    let Request::Open(setting) = control.request()? else { return None };
    let mut inside = match Mounts::new(&setting) {
        Ok(mounts) => Inside { setting, standard, mounts, control },
        Err(trouble) => {
            control.reply(&Reply::Failed(trouble));
            return Some(1);
        }
    };
    inside.control.reply(&Reply::Done);
    loop {
        let request = inside.control.request()?;
        if matches!(request, Request::End) {
            inside.control.reply(&Reply::Done);
            return Some(0);
        }
        let reply = if inside.control.stops > 0 { Ok(Reply::Stopped) } else { inside.answer(&request) };
        inside.control.reply(&reply.unwrap_or_else(Reply::Failed));
    }
}

struct Inside {
    setting: Setting,
    standard: [OwnedFd; 3],
    mounts: Mounts,
    control: Control,
}

impl Inside {
    fn answer(&mut self, request: &Request) -> Result<Reply, Trouble> {
        match request {
            Request::MakeFileSystem => self.make_file_system(),
            Request::GiveToUser => self.give_to_user().map(|()| Reply::Done),
            Request::Run(phase) => self.run(phase, false),
            Request::RunOnStart(phase) => self.run(phase, true),
            Request::Open(_) | Request::Start | Request::Cancel | Request::Stop | Request::End => {
                Err(Trouble::new("unexpected request of the caller"))
            }
        }
    }

    fn make_file_system(&mut self) -> Result<Reply, Trouble> {
        if !run::make_file_system(&self.setting, &mut self.control)? {
            return Ok(Reply::Stopped);
        }
        self.give_to_user().map(|()| Reply::Done)
    }

    /// Gives the root directory to the user, if there is one, with nothing of it left to be written later.
    fn give_to_user(&mut self) -> Result<(), Trouble> {
        let Some(account) = self.setting.account.as_ref().filter(|_| self.mounts.target().is_some()) else {
            return Ok(());
        };
        self.mounts.mount(&self.setting)?;
        let given = self.mounts.give_to(account);
        self.mounts.sync_and_unmount()?;
        given
    }
}

/// The inside's end of the control socket.
pub(crate) struct Control {
    lines: Lines,
    stops: u32,
}

impl Control {
    /// Returns the number of stop requests from the caller.
    pub(crate) const fn stops(&self) -> u32 {
        self.stops
    }

    /// Waits for a request other than to stop; none when the caller is gone.
    fn request(&mut self) -> Option<Request> {
        loop {
            match self.lines.next().ok()?? {
                Request::Stop => self.stops += 1,
                request => return Some(request),
            }
        }
    }

    /// Reports that the device is mounted, and waits for the caller. Returns true if the command is to start. If the
    /// caller is gone, this ends the process.
    pub(crate) fn is_started(&mut self) -> bool {
        self.reply(&Reply::Mounted);
        match self.request() {
            Some(request) => matches!(request, Request::Start) && self.stops == 0,
            None => std::process::exit(1),
        }
    }

    fn reply(&self, reply: &Reply) {
        // If nobody reads it, the next request says so.
        let _ = send(self.lines.stream(), reply);
    }

    /// Waits until `also` is readable, the caller requests a stop, or `timeout` is over. Returns true if `also`
    /// is readable. If the caller is gone, this ends the process, and with it all others inside.
    pub(crate) fn wait(&mut self, also: Option<BorrowedFd<'_>>, timeout: Duration) -> bool {
        let timeout = Timespec {
            tv_sec: (timeout.as_ns() / 1_000_000_000) as i64,
            tv_nsec: (timeout.as_ns() % 1_000_000_000) as _,
        };
        let socket = self.lines.stream();
        let ready = match also {
            Some(also) => {
                let mut watched =
                    [PollFd::new(socket, PollFlags::IN), PollFd::from_borrowed_fd(also, PollFlags::IN)];
                // Interrupted or not: what is ready says what to do.
                let _ = poll(&mut watched, Some(&timeout));
                watched.map(|watched| !watched.revents().is_empty())
            }
            None => {
                let mut watched = [PollFd::new(socket, PollFlags::IN)];
                let _ = poll(&mut watched, Some(&timeout));
                [!watched[0].revents().is_empty(), false]
            }
        };
        if ready[0] {
            self.listen();
        }
        ready[1]
    }

    fn listen(&mut self) {
        if !self.lines.fill().unwrap_or(false) {
            std::process::exit(1);
        }
        // The caller asks one thing at a time, so only a stop can come while something is being done.
        while let Ok(Some(Request::Stop)) = self.lines.arrived() {
            self.stops += 1;
        }
    }
}

/// A duplicate of a descriptor for a child.
fn duplicate(descriptor: &OwnedFd) -> Result<File, Trouble> {
    descriptor.try_clone().map(File::from).map_err(|error| Trouble::io("duplicate a descriptor", error))
}
