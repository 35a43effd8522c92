//! The functions of libiscsi that a [`Session`](super::session::Session) calls, as its headers declare them.
//!
//! # Scope and limits
//! libiscsi 1.19 (`libiscsi.so.7`), linked dynamically. `layout.c` compares the structures with the headers when the
//! crate is built. Nothing here is safe to call; the session is.
//!
//! # References
//! `iscsi/iscsi.h` and `iscsi/scsi-lowlevel.h` of libiscsi 1.19.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

use nix::libc::iovec;

/// `struct iscsi_context`.
#[repr(C)]
pub(super) struct Context {
    _private: [u8; 0],
}

/// The begin of `struct scsi_task`. Only libiscsi makes one.
#[repr(C)]
pub(super) struct Task {
    _head: [u8; 32],
    /// `enum scsi_residual`.
    pub(super) residual_status: c_uint,
    /// Bytes that were not transferred, or that were too many.
    pub(super) residual: usize,
    _sense: [u8; 16],
    /// Length of `data`.
    pub(super) data_bytes: c_int,
    /// Length of the sense data in two bytes, and the sense data.
    pub(super) data: *const c_uchar,
}

/// Fewer bytes than expected were transferred.
pub(super) const UNDERFLOW: c_uint = 1;
/// Directions of data.
pub(super) const TRANSFER_NONE: c_int = 0;
pub(super) const TRANSFER_READ: c_int = 1;
pub(super) const TRANSFER_WRITE: c_int = 2;
/// A session that accesses units.
pub(super) const SESSION_NORMAL: c_int = 2;
/// Headers without checksum.
pub(super) const DIGEST_NONE: c_int = 0;

/// Called at the end of a command or a login, within `iscsi_service` or `iscsi_destroy_context`.
pub(super) type Callback = extern "C" fn(*mut Context, c_int, *mut c_void, *mut c_void);

#[link(name = "iscsi")]
#[expect(unsafe_code, reason = "functions of a library in C")]
unsafe extern "C" {
    pub(super) fn iscsi_create_context(initiator: *const c_char) -> *mut Context;
    pub(super) fn iscsi_destroy_context(context: *mut Context) -> c_int;
    pub(super) fn iscsi_set_targetname(context: *mut Context, name: *const c_char) -> c_int;
    pub(super) fn iscsi_set_session_type(context: *mut Context, kind: c_int) -> c_int;
    pub(super) fn iscsi_set_header_digest(context: *mut Context, digest: c_int) -> c_int;
    pub(super) fn iscsi_set_noautoreconnect(context: *mut Context, state: c_int);
    pub(super) fn iscsi_set_initiator_username_pwd(
        context: *mut Context,
        user: *const c_char,
        password: *const c_char,
    ) -> c_int;
    pub(super) fn iscsi_set_target_username_pwd(
        context: *mut Context,
        user: *const c_char,
        password: *const c_char,
    ) -> c_int;
    pub(super) fn iscsi_full_connect_async(
        context: *mut Context,
        portal: *const c_char,
        lun: c_int,
        callback: Callback,
        private: *mut c_void,
    ) -> c_int;
    pub(super) fn iscsi_logout_async(
        context: *mut Context,
        callback: Callback,
        private: *mut c_void,
    ) -> c_int;
    pub(super) fn iscsi_get_error(context: *mut Context) -> *const c_char;
    pub(super) fn iscsi_get_fd(context: *mut Context) -> c_int;
    pub(super) fn iscsi_which_events(context: *mut Context) -> c_int;
    pub(super) fn iscsi_service(context: *mut Context, events: c_int) -> c_int;
    pub(super) fn iscsi_scsi_command_async(
        context: *mut Context,
        lun: c_int,
        task: *mut Task,
        callback: Callback,
        data: *mut c_void,
        private: *mut c_void,
    ) -> c_int;
    pub(super) fn scsi_create_task(
        block_bytes: c_int,
        block: *mut c_uchar,
        direction: c_int,
        bytes: c_int,
    ) -> *mut Task;
    pub(super) fn scsi_free_scsi_task(task: *mut Task);
    pub(super) fn scsi_task_set_iov_in(task: *mut Task, vector: *mut iovec, count: c_int);
    pub(super) fn scsi_task_set_iov_out(task: *mut Task, vector: *mut iovec, count: c_int);
}
