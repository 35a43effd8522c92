//! A session with an iSCSI target over libiscsi, and the buffers that it works on.
//!
//! ```text
//! push ─▶ task of libiscsi ─▶ socket ─▶ work (poll, iscsi_service) ─▶ callback ─▶ replies ─▶ take
//! ```
//! # Scope and limits
//! The buffer of a slot belongs to libiscsi from [`Session::push`] until its reply is taken or [`Session::close`] returns. libiscsi
//! never reconnects by itself: it would send writes again that may have been carried out. All `unsafe` code of the
//! target is here and in the declarations.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};

use nix::libc::iovec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::command::{Command, Data, UNMAP_LIST_BYTES};
use super::library::{self, Context, Task};
use super::outcome::{CANCELLED, CHECK_CONDITION, GOOD, Reply, Sense};
use super::portal::Portal;
use super::unit::ANSWER_BYTES_MAX;
use crate::target::Transfer;
use crate::target::buffers::Buffers;

/// Zeroes for the longest block.
const ZEROES_BYTES: usize = 1 << 20;

/// Place in which callbacks leave what they were called with.
#[derive(Debug, Default)]
struct Mailbox {
    replies: RefCell<VecDeque<Reply>>,
    login: RefCell<Option<Result<(), String>>>,
    /// Tasks of writes that failed: data of them may still be queued, so they are freed with the connection.
    kept: RefCell<Vec<NonNull<Task>>>,
}

/// Place of a command.
struct Slot {
    number: u32,
    mailbox: *const Mailbox,
    /// Task under way, or null.
    task: Cell<*mut Task>,
    writes: Cell<bool>,
    vector: UnsafeCell<iovec>,
    list: UnsafeCell<[u8; UNMAP_LIST_BYTES]>,
}

/// A session, or the lack of one.
pub(super) struct Session {
    context: *mut Context,
    lun: c_int,
    mailbox: Box<Mailbox>,
    /// Slots of requests by tag, and a last one for questions about the unit.
    slots: Box<[Slot]>,
    answer: Box<[u8]>,
    zeroes: Box<[u8]>,
    buffers: Buffers,
    under_way: usize,
    calls: u64,
}

#[expect(unsafe_code, reason = "libiscsi binds a context to no thread")]
// SAFETY: libiscsi keeps no state of threads, and the addresses are those of memory that the session owns. `&mut self` keeps two
// threads from using it at a time.
unsafe impl Send for Session {}

impl Session {
    /// A session that is not connected, for requests in these buffers, of so many slots.
    pub(super) fn new(buffers: Buffers, slots: u32) -> Self {
        let mailbox = Box::<Mailbox>::default();
        let slot = |number| Slot {
            number,
            mailbox: &raw const *mailbox,
            task: Cell::new(ptr::null_mut()),
            writes: Cell::new(false),
            vector: UnsafeCell::new(iovec { iov_base: ptr::null_mut(), iov_len: 0 }),
            list: UnsafeCell::new([0; UNMAP_LIST_BYTES]),
        };
        let slots = (0..=slots).map(slot).collect();
        Self {
            context: ptr::null_mut(),
            lun: 0,
            mailbox,
            slots,
            answer: vec![0; ANSWER_BYTES_MAX].into(),
            zeroes: vec![0; ZEROES_BYTES].into(),
            buffers,
            under_way: 0,
            calls: 0,
        }
    }

    /// The buffers. That of a slot is libiscsi's while its request is under way.
    pub(super) fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    /// Data of the last answer to a question.
    pub(super) fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// Commands without a reply.
    pub(super) const fn under_way(&self) -> usize {
        self.under_way
    }

    /// Waits for the socket so far. The system calls of libiscsi are not among them.
    pub(super) const fn calls(&self) -> u64 {
        self.calls
    }

    /// Begins to connect and to log in, see [`login`](Self::login). A former connection is closed.
    ///
    /// # Errors
    /// The reason, if that is not possible.
    #[expect(unsafe_code, reason = "calls of libiscsi")]
    pub(super) fn connect(&mut self, portal: &Portal) -> Result<(), String> {
        self.close();
        // The caller has taken the replies to requests. That to a question of a former login may be there.
        self.mailbox.replies.borrow_mut().clear();
        self.under_way = 0;
        *self.mailbox.login.borrow_mut() = None;
        self.lun = c_int::from(portal.address.lun);
        let text = |text: &str| CString::new(text).map_err(|_| "a name has a zero byte".to_owned());
        let names = [text(&portal.initiator)?, text(&portal.address.target)?, text(&portal.address.portal)?];
        let [initiator, target, address] = &names;
        // SAFETY: the text ends with a zero byte, and libiscsi copies it.
        self.context = unsafe { library::iscsi_create_context(initiator.as_ptr()) };
        if self.context.is_null() {
            return Err("libiscsi has no memory for a session".to_owned());
        }
        let context = self.context;
        // SAFETY: the context is one of libiscsi, and the text ends with a zero byte and is copied.
        let mut result = unsafe {
            library::iscsi_set_noautoreconnect(context, 1);
            library::iscsi_set_targetname(context, target.as_ptr())
                | library::iscsi_set_session_type(context, library::SESSION_NORMAL)
                | library::iscsi_set_header_digest(context, library::DIGEST_NONE)
        };
        let logins = [&portal.credentials.own, &portal.credentials.of_target];
        let setters = [library::iscsi_set_initiator_username_pwd, library::iscsi_set_target_username_pwd];
        for (login, set) in logins.into_iter().zip(setters) {
            let Some(login) = login else { continue };
            let (user, password) = (text(&login.user)?, text(&login.password)?);
            // SAFETY: as above.
            result |= unsafe { set(context, user.as_ptr(), password.as_ptr()) };
        }
        if result == 0 {
            let mailbox = (&raw const *self.mailbox).cast_mut().cast();
            // SAFETY: as above; the mailbox lives until the context is destroyed.
            result = unsafe {
                library::iscsi_full_connect_async(context, address.as_ptr(), self.lun, logged_in, mailbox)
            };
        }
        if result == 0 { Ok(()) } else { Err(self.error()) }
    }

    /// Returns the end of the login, if it has come: the connection can be used, or the reason why not.
    pub(super) fn login(&self) -> Option<Result<(), String>> {
        self.mailbox.login.borrow().clone()
    }

    /// Sends the command of a request whose slot is free.
    ///
    /// # Errors
    /// The reason, after which the connection is of no use.
    pub(super) fn push(&mut self, transfer: &Transfer, command: &Command) -> Result<(), String> {
        let tag = transfer.tag;
        let (address, length) = match command.data {
            Data::Read(length) => (self.buffers.for_read(tag, length).bytes.as_mut_ptr(), length),
            Data::Write(length) => (self.buffers.for_write(tag, length, transfer).bytes.as_mut_ptr(), length),
            _ => self.place_of(tag as usize, command.data),
        };
        self.send(tag as usize, command, address, length)
    }

    /// Sends a question about the unit. Its reply has the number behind that of the last slot.
    ///
    /// # Errors
    /// As those of [`push`](Self::push).
    pub(super) fn ask(&mut self, command: &Command) -> Result<(), String> {
        self.answer.fill(0);
        let slot = self.slots.len() - 1;
        let (address, length) = self.place_of(slot, command.data);
        self.send(slot, command, address, length)
    }

    /// Memory of data that lie in no buffer of a request.
    #[expect(unsafe_code, reason = "memory that libiscsi reads")]
    fn place_of(&mut self, slot: usize, data: Data) -> (*mut u8, usize) {
        match data {
            Data::None => (ptr::null_mut(), 0),
            Data::Read(length) | Data::Write(length) => {
                (self.answer.as_mut_ptr(), length.min(self.answer.len()))
            }
            Data::Zeroes(length) => (self.zeroes.as_mut_ptr(), length.min(self.zeroes.len())),
            Data::UnmapList(list) => {
                let place = self.slots[slot].list.get();
                // SAFETY: the slot is free, so that libiscsi does not read its list.
                unsafe { *place = list };
                (place.cast(), UNMAP_LIST_BYTES)
            }
        }
    }

    #[expect(unsafe_code, reason = "calls of libiscsi, which keeps the address of the data")]
    fn send(
        &mut self,
        slot: usize,
        command: &Command,
        address: *mut u8,
        length: usize,
    ) -> Result<(), String> {
        let slot = &self.slots[slot];
        if self.context.is_null() || !slot.task.get().is_null() {
            return Err("there is no connection, or the slot is taken".to_owned());
        }
        let direction = match command.data {
            Data::None => library::TRANSFER_NONE,
            Data::Read(_) => library::TRANSFER_READ,
            Data::Write(_) | Data::UnmapList(_) | Data::Zeroes(_) => library::TRANSFER_WRITE,
        };
        let bytes = c_int::try_from(length).map_err(|_| "a request is longer than 2 GiB".to_owned())?;
        let mut block = command.block;
        // SAFETY: the block has that length, and libiscsi copies it.
        let task = unsafe {
            library::scsi_create_task(command.block_bytes as c_int, block.as_mut_ptr(), direction, bytes)
        };
        if task.is_null() {
            return Err("libiscsi has no memory for a command".to_owned());
        }
        // SAFETY: the slot is free, so that libiscsi does not use its vector. Slots, answer, zeroes and buffers neither move nor are
        // freed before the context is destroyed, and nobody else touches them until the reply is taken.
        let result = unsafe {
            *slot.vector.get() = iovec { iov_base: address.cast(), iov_len: length };
            match direction {
                library::TRANSFER_READ => library::scsi_task_set_iov_in(task, slot.vector.get(), 1),
                library::TRANSFER_WRITE => library::scsi_task_set_iov_out(task, slot.vector.get(), 1),
                _ => {}
            }
            let private = (&raw const *slot).cast_mut().cast();
            library::iscsi_scsi_command_async(self.context, self.lun, task, ended, ptr::null_mut(), private)
        };
        if result != 0 {
            // SAFETY: libiscsi did not take the task.
            unsafe { library::scsi_free_scsi_task(task) };
            return Err(self.error());
        }
        slot.writes.set(direction == library::TRANSFER_WRITE);
        slot.task.set(task);
        self.under_way += 1;
        Ok(())
    }

    /// Writes to the socket what was pushed, as far as it takes it.
    ///
    /// # Errors
    /// The reason for which the connection is of no use.
    pub(super) fn flush_out(&mut self) -> Result<(), String> {
        self.serve(PollFlags::OUT)
    }

    /// Waits for the server, at most for `limit`, and lets libiscsi take what came and send what waits. Returns true if something
    /// happened.
    ///
    /// # Errors
    /// The reason for which the connection is of no use.
    #[expect(unsafe_code, reason = "calls of libiscsi, and a descriptor that it owns")]
    pub(super) fn work(&mut self, limit: Timespec) -> Result<bool, String> {
        if self.context.is_null() {
            return Err("there is no connection".to_owned());
        }
        // SAFETY: the context is one of libiscsi.
        let (number, events) =
            unsafe { (library::iscsi_get_fd(self.context), library::iscsi_which_events(self.context)) };
        if number < 0 {
            return Err(self.error());
        }
        // SAFETY: the descriptor is open as long as the context is, and nothing closes that meanwhile.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let events = PollFlags::from_bits_truncate(events as u16) | PollFlags::RDHUP;
        let mut descriptors = [PollFd::from_borrowed_fd(descriptor, events)];
        self.calls += 1;
        match poll(&mut descriptors, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
        let happened = descriptors[0].revents();
        let served = self.serve(happened - PollFlags::RDHUP);
        let is_closed = happened.intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR);
        match (self.login(), served) {
            // It has the cause of a failed login.
            (Some(Err(reason)), _) => Err(reason),
            (_, Err(_)) | (Some(Ok(())), Ok(())) if is_closed => {
                Err("the server closed the connection".to_owned())
            }
            (_, Err(reason)) => Err(reason),
            (_, Ok(())) => Ok(true),
        }
    }

    #[expect(unsafe_code, reason = "calls of libiscsi")]
    fn serve(&mut self, events: PollFlags) -> Result<(), String> {
        if self.context.is_null() {
            return Err("there is no connection".to_owned());
        }
        // SAFETY: the context is one of libiscsi. Callbacks touch the mailbox and the slots through shared references alone.
        let result = unsafe { library::iscsi_service(self.context, c_int::from(events.bits() as i16)) };
        if result == 0 { Ok(()) } else { Err(self.error()) }
    }

    /// Takes one reply, if there is one.
    pub(super) fn take(&mut self) -> Option<Reply> {
        let reply = self.mailbox.replies.borrow_mut().pop_front()?;
        self.under_way -= 1;
        Some(reply)
    }

    /// Closes the connection. Commands under way get replies with the status [`CANCELLED`].
    #[expect(unsafe_code, reason = "calls of libiscsi")]
    pub(super) fn close(&mut self) {
        if self.context.is_null() {
            return;
        }
        // SAFETY: the context is one of libiscsi and is not used any more.
        unsafe { library::iscsi_destroy_context(self.context) };
        self.context = ptr::null_mut();
        // Versions of libiscsi differ in whether commands under way hear of it.
        for slot in &self.slots {
            end(slot, CANCELLED);
        }
        for task in self.mailbox.kept.take() {
            // SAFETY: the connection is closed, so nothing uses the task.
            unsafe { library::scsi_free_scsi_task(task.as_ptr()) };
        }
    }

    /// Begins to log out.
    ///
    /// # Errors
    /// As those of [`push`](Self::push).
    #[expect(unsafe_code, reason = "calls of libiscsi")]
    pub(super) fn log_out(&mut self) -> Result<(), String> {
        if self.context.is_null() {
            return Err("there is no connection".to_owned());
        }
        *self.mailbox.login.borrow_mut() = None;
        let mailbox = (&raw const *self.mailbox).cast_mut().cast();
        // SAFETY: the context is one of libiscsi, and the mailbox lives until it is destroyed.
        let result = unsafe { library::iscsi_logout_async(self.context, logged_in, mailbox) };
        if result == 0 { self.flush_out() } else { Err(self.error()) }
    }

    /// The last error of libiscsi.
    #[expect(unsafe_code, reason = "calls of libiscsi")]
    fn error(&self) -> String {
        // SAFETY: the context is one of libiscsi, or null.
        unsafe { error_of(self.context) }
    }
}

/// The last error of a context.
///
/// # Safety
/// The context is one of libiscsi, or null.
#[expect(unsafe_code, reason = "calls of libiscsi")]
unsafe fn error_of(context: *mut Context) -> String {
    if context.is_null() {
        return "there is no connection".to_owned();
    }
    // SAFETY: by the condition of this function.
    let text = unsafe { library::iscsi_get_error(context) };
    if text.is_null() {
        return "libiscsi gives no reason".to_owned();
    }
    // SAFETY: libiscsi's text ends with a zero byte, and is copied before the next call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    text.trim().trim_end_matches('.').to_owned()
}

/// A login or logout has ended.
#[expect(unsafe_code, reason = "called by libiscsi")]
extern "C" fn logged_in(context: *mut Context, status: c_int, _: *mut c_void, mailbox: *mut c_void) {
    // SAFETY: the address is that of the mailbox of the session, which outlives the context; the context is that of the call.
    let (mailbox, error) = unsafe { (&*mailbox.cast::<Mailbox>(), error_of(context)) };
    let Ok(mut login) = mailbox.login.try_borrow_mut() else { return };
    // A second call, when the connection ends, changes nothing.
    login.get_or_insert(if status == GOOD { Ok(()) } else { Err(error) });
}

/// A command has ended.
#[expect(unsafe_code, reason = "called by libiscsi")]
extern "C" fn ended(_: *mut Context, status: c_int, _: *mut c_void, slot: *mut c_void) {
    // SAFETY: the address is that of a slot of the session, which outlives the context.
    end(unsafe { &*slot.cast::<Slot>() }, status);
}

/// Leaves the result of the command of a slot in the mailbox, and frees its task.
#[expect(unsafe_code, reason = "memory of libiscsi")]
fn end(slot: &Slot, status: c_int) {
    let Some(task) = NonNull::new(slot.task.replace(ptr::null_mut())) else { return };
    // SAFETY: the task of a slot is one that libiscsi made and that was not freed; the mailbox outlives the slots' use.
    let (result, mailbox) = unsafe { (task.as_ref(), &*slot.mailbox) };
    let length = usize::try_from(result.data_bytes).unwrap_or(0);
    let mut sense = None;
    if status == CHECK_CONDITION && !result.data.is_null() && length > 2 {
        // SAFETY: the data of a task have that length, and live until it is freed.
        let data = unsafe { std::slice::from_raw_parts(result.data, length) };
        sense = Sense::parse(&data[2..]);
    }
    let missing_bytes = if result.residual_status == library::UNDERFLOW { result.residual } else { 0 };
    let reply = Reply { slot: slot.number, status, sense, missing_bytes };
    mailbox.replies.borrow_mut().push_back(reply);
    if slot.writes.get() && status != GOOD {
        mailbox.kept.borrow_mut().push(task);
        return;
    }
    // SAFETY: the task has ended, so libiscsi does not use it any more.
    unsafe { library::scsi_free_scsi_task(task.as_ptr()) };
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}
