//! Messages that need no device: names, attributes, opening.

use super::{Connection, Decoded, Owner, VALID_S, errno};
use crate::frontend::fuse::wire::{
    ACCESS_MODE, Attributes, Encoder, FILE_NODE, Fields, Header, ROOT_NODE, attribute, opcode, open_flag,
};

impl Connection {
    fn attributes(&self, node: u64) -> Attributes {
        const DIRECTORY: u32 = 0o040_000;
        const REGULAR: u32 = 0o100_000;
        let Owner { uid, gid } = self.owner;
        let is_file = node == FILE_NODE;
        let (mode, link_count) = match (is_file, self.export.read_only) {
            (false, _) => (DIRECTORY | 0o500, 2),
            (true, false) => (REGULAR | 0o600, 1),
            (true, true) => (REGULAR | 0o400, 1),
        };
        let size_bytes = if is_file { self.export.size_bytes } else { 0 };
        let block_size_bytes = self.export.block_size_bytes.max(4096);
        Attributes { node, size_bytes, mode, link_count, uid, gid, block_size_bytes }
    }

    pub(super) fn answer_about_names(
        &mut self,
        header: Header,
        mut arguments: Fields<'_>,
    ) -> Option<Decoded<'static>> {
        let Header { opcode, unique, node } = header;
        let on_root = node == ROOT_NODE;
        if !on_root && node != FILE_NODE {
            return Some(Decoded::Status(errno::ENOENT));
        }
        let attributes = self.attributes(node);
        match opcode {
            opcode::LOOKUP => {
                if !on_root {
                    return Some(Decoded::Status(errno::ENOTDIR));
                }
                if arguments.name()? != self.name.as_bytes() {
                    return Some(Decoded::Status(errno::ENOENT));
                }
                let attributes = self.attributes(FILE_NODE);
                self.answer(unique, 128, |buffer| {
                    let mut encoder = Encoder::new(buffer);
                    encoder.u64(FILE_NODE).u64(0).u64(VALID_S).u64(VALID_S).u32(0).u32(0);
                    Ok(encoder.attributes(&attributes).used())
                });
            }
            opcode::SETATTR => {
                use attribute::{GID, MODE, UID};
                if arguments.u32()? & (MODE | UID | GID) != 0 {
                    return Some(Decoded::Status(errno::EPERM));
                }
                self.answer_attributes(unique, attributes);
            }
            opcode::GETATTR => self.answer_attributes(unique, attributes),
            opcode::OPEN => {
                let writes = arguments.u32()? & ACCESS_MODE != 0;
                if on_root {
                    return Some(Decoded::Status(errno::EISDIR));
                }
                if writes && self.export.read_only {
                    return Some(Decoded::Status(errno::EROFS));
                }
                use open_flag::{DIRECT_IO, NOFLUSH, PARALLEL_DIRECT_WRITES};
                self.answer_open(unique, DIRECT_IO | NOFLUSH | PARALLEL_DIRECT_WRITES);
            }
            opcode::OPENDIR if on_root => self.answer_open(unique, 0),
            opcode::READDIR if on_root => {
                let (_handle, from, size) = (arguments.u64()?, arguments.u64()?, arguments.u32()?);
                self.answer_entries(unique, from, size);
            }
            opcode::STATFS => self.answer_space(unique),
            opcode::RELEASE | opcode::RELEASEDIR | opcode::FSYNCDIR => self.answer(unique, 0, |_| Ok(0)),
            opcode::DESTROY => {
                self.destroyed = true;
                self.answer(unique, 0, |_| Ok(0));
            }
            opcode::SYMLINK
            | opcode::MKNOD
            | opcode::MKDIR
            | opcode::UNLINK
            | opcode::RMDIR
            | opcode::RENAME
            | opcode::RENAME2
            | opcode::LINK
            | opcode::CREATE => return Some(Decoded::Status(errno::EPERM)),
            _ => return Some(Decoded::Status(errno::ENOSYS)),
        }
        Some(Decoded::Settled)
    }

    fn answer_attributes(&mut self, unique: u64, attributes: Attributes) {
        self.answer(unique, 104, |buffer| {
            Ok(Encoder::new(buffer).u64(VALID_S).u32(0).u32(0).attributes(&attributes).used())
        });
    }

    fn answer_open(&mut self, unique: u64, flags: u32) {
        self.answer(unique, 16, |buffer| Ok(Encoder::new(buffer).u64(0).u32(flags).u32(0).used()));
    }

    fn answer_entries(&mut self, unique: u64, from: u64, size: u32) {
        const DIRECTORY: u32 = 4;
        const REGULAR: u32 = 8;
        // `answer` borrows the name.
        let name = std::mem::take(&mut self.name);
        let entries: [(u64, u32, &[u8]); 3] = [
            (ROOT_NODE, DIRECTORY, b"."),
            (ROOT_NODE, DIRECTORY, b".."),
            (FILE_NODE, REGULAR, name.as_bytes()),
        ];
        let from = from.min(entries.len() as u64) as usize;
        let entry_size = |name: &[u8]| (24 + name.len()).next_multiple_of(8);
        let all = entries.iter().map(|(.., name)| entry_size(name)).sum();
        self.answer(unique, all, |buffer| {
            let mut encoder = Encoder::new(buffer);
            for (next, (node, kind, name)) in (1..).zip(entries).skip(from) {
                if encoder.used() + entry_size(name) > size as usize {
                    break;
                }
                encoder.directory_entry(node, next, kind, name);
            }
            Ok(encoder.used())
        });
        self.name = name;
    }

    fn answer_space(&mut self, unique: u64) {
        let block = self.export.block_size_bytes.max(512);
        let blocks = self.export.size_bytes / u64::from(block);
        self.answer(unique, 80, |buffer| {
            let mut encoder = Encoder::new(buffer);
            // Blocks: all, free, available; files: all, free.
            encoder.u64(blocks).u64(0).u64(0).u64(1).u64(0);
            encoder.u32(block).u32(255).u32(block).zeroes(28);
            Ok(encoder.used())
        });
    }
}
