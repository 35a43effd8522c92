//! Programs of processes: statements, read from text.
//!
//! ```text
//! compute TIME                                                  occupy a CPU
//! read FILE SIZE [random | at OFFSET] [direct [async]]          read from a file
//! write FILE SIZE [random | at OFFSET] [direct] [sync | async]  write to a file
//! sync [FILE]                                                   write what is dirty, and wait for it
//! sleep TIME                                                    wait
//! fork PROCESS                                                  start a child
//! wait                                                          wait until all children have ended
//! lock LOCK                                                     wait until no other process holds the lock, and take it
//! unlock LOCK                                                   give the lock back
//! send PIPE SIZE                                                put bytes into a pipe, waiting for room
//! receive PIPE SIZE                                             take bytes from a pipe, waiting for them
//! exit                                                          end
//! repeat N { … }                                                the statements between the braces, N times
//! ```
//! A statement ends with its line or with a semicolon. A comment begins with `#` and ends with its line. Reading and
//! writing go on where the process last read or wrote the file, unless a place is given: `random` is a block chosen at
//! random. At the end of the file they go on at its start.

use seeklab_core::{ByteSize, DescriptionError, Duration, Mistake};

use super::channel::Piped;

/// One statement. Computing times are those of the host's CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instruction {
    Compute(Duration),
    Transfer(Transfer),
    /// Of a file, or of all files.
    Sync(Option<u32>),
    Sleep(Duration),
    /// Number of the process's definition.
    Fork(u32),
    Wait,
    /// Number of the lock.
    Lock(u32),
    /// Number of the lock.
    Unlock(u32),
    Pipe(Piped),
    Exit,
    /// Runs what follows that many times; `end` is the instruction after the matching `Next`.
    Repeat {
        count: u64,
        end: u32,
    },
    /// Goes back to the first instruction of the loop, unless it has run often enough.
    Next {
        first: u32,
    },
}

/// A read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) file: u32,
    pub(super) bytes: u64,
    pub(super) place: Place,
    pub(super) mode: Mode,
    pub(super) writes: bool,
    /// Past the page cache.
    pub(super) direct: bool,
}

/// Start of a transfer in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Next,
    Random,
    At(u64),
}

/// Time at which a transfer goes to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A read before the call returns, a write later, by the syncer.
    Usual,
    /// Before the call returns.
    Sync,
    /// At once, and the call does not wait.
    Async,
}

/// Names that a program may use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) files: &'a [&'a str],
    pub(super) processes: &'a [&'a str],
}

/// Names of locks and pipes. A statement with a new name makes the lock or pipe.
#[derive(Debug, Clone, Default)]
pub(super) struct Channels {
    locks: Vec<Channel>,
    pipes: Vec<Channel>,
}

#[derive(Debug, Clone)]
struct Channel {
    name: String,
    /// True if a statement locks it or sends.
    has_first: bool,
    /// True if a statement unlocks it or receives.
    has_second: bool,
}

impl Channels {
    /// Numbers of locks and of pipes.
    pub(super) const fn counts(&self) -> (usize, usize) {
        (self.locks.len(), self.pipes.len())
    }

    /// Checks that each lock and pipe has statements of both kinds.
    ///
    /// # Errors
    /// The first that lacks one.
    pub(super) fn check(&self) -> Result<(), DescriptionError> {
        let verbs = [(&self.locks, "lock", "unlock"), (&self.pipes, "send", "receive")];
        for (channels, first, second) in verbs {
            let Some(one) = channels.iter().find(|one| !(one.has_first && one.has_second)) else { continue };
            let (has, lacks) = if one.has_first { (first, second) } else { (second, first) };
            let name = &one.name;
            let problem = format!("`{has} {name}` has no counterpart: no program has `{lacks} {name}`");
            return Err(DescriptionError::new(Mistake::UnknownName, "processes", problem)
                .hint(format!("write `{lacks} {name}` in a program, or correct the name")));
        }
        Ok(())
    }

    fn number(channels: &mut Vec<Channel>, name: &str, is_first: bool) -> u32 {
        let found = channels.iter().position(|channel| channel.name == name);
        let number = found.unwrap_or_else(|| {
            channels.push(Channel { name: name.to_owned(), has_first: false, has_second: false });
            channels.len() - 1
        });
        channels[number].has_first |= is_first;
        channels[number].has_second |= !is_first;
        number as u32
    }
}

const STATEMENTS: [&str; 13] = [
    "compute", "read", "write", "sync", "sleep", "fork", "wait", "lock", "unlock", "send", "receive", "exit",
    "repeat",
];

/// Depth of nested loops at most.
const DEPTH_MAX: usize = 16;

/// Reads a program.
///
/// # Errors
/// The first mistake, with its line of the program.
pub(super) fn parse(
    text: &str,
    names: Names,
    channels: &mut Channels,
) -> Result<Vec<Instruction>, DescriptionError> {
    let mut program = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        for part in line.replace('{', " {;").replace('}', ";};").split(';') {
            let words: Vec<&str> = part.split_whitespace().collect();
            if !words.is_empty() {
                statement(&words, names, channels, &mut program, &mut open)
                    .map_err(|error| on_line(&error, index + 1, &words.join(" ")))?;
            }
        }
    }
    if !open.is_empty() {
        return Err(DescriptionError::new(Mistake::Syntax, "", "a `repeat` has no `}`"));
    }
    if program.is_empty() {
        return Err(DescriptionError::invalid("", "has no statement")
            .hint("write for example `repeat 100 { read in 4KiB; compute 5ms }`"));
    }
    Ok(program)
}

fn on_line(error: &DescriptionError, line: usize, statement: &str) -> DescriptionError {
    let located = DescriptionError::new(
        error.mistake(),
        "",
        format!("line {line}, `{statement}`: {}", error.problem()),
    );
    match error.advice() {
        Some(hint) => located.hint(hint),
        None => located,
    }
}

fn statement(
    words: &[&str],
    names: Names,
    channels: &mut Channels,
    program: &mut Vec<Instruction>,
    open: &mut Vec<usize>,
) -> Result<(), DescriptionError> {
    let wrong = |problem: &str, hint: &str| {
        Err(DescriptionError::new(Mistake::Syntax, "", problem.to_owned()).hint(hint.to_owned()))
    };
    let instruction = match words {
        ["compute", time] => Instruction::Compute(duration(time)?),
        ["compute", ..] => return wrong("takes one time", "write for example `compute 5ms`"),
        ["sleep", time] => Instruction::Sleep(duration(time)?),
        ["sleep", ..] => return wrong("takes one time", "write for example `sleep 1s`"),
        ["read" | "write", file, size, options @ ..] => {
            Instruction::Transfer(transfer(words[0] == "write", file, size, options, names)?)
        }
        ["read" | "write", ..] => {
            return wrong("takes a file and a size", "write for example `read in 4KiB`");
        }
        ["sync"] => Instruction::Sync(None),
        ["sync", file] => Instruction::Sync(Some(number("file", file, names.files)?)),
        ["sync", ..] => return wrong("takes one file, or none", "write for example `sync out`"),
        ["fork", process] => Instruction::Fork(number("process", process, names.processes)?),
        ["fork", ..] => return wrong("takes one process", "write for example `fork child`"),
        ["wait"] => Instruction::Wait,
        ["exit"] => Instruction::Exit,
        ["wait" | "exit", ..] => return wrong("takes nothing", "write the word alone"),
        ["lock", lock] => Instruction::Lock(Channels::number(&mut channels.locks, lock, true)),
        ["unlock", lock] => Instruction::Unlock(Channels::number(&mut channels.locks, lock, false)),
        ["lock" | "unlock", ..] => return wrong("takes one lock", "write for example `lock table`"),
        [verb @ ("send" | "receive"), pipe, size] => {
            let (sends, left) = (*verb == "send", bytes(size)?);
            let pipe = Channels::number(&mut channels.pipes, pipe, sends);
            Instruction::Pipe(Piped { pipe, sends, left })
        }
        ["send" | "receive", ..] => {
            return wrong("takes a pipe and a size", "write for example `send rows 4KiB`");
        }
        ["repeat", count, "{"] => {
            let Some(count) = count.replace('_', "").parse().ok().filter(|count| *count > 0) else {
                return wrong(
                    "the number of repetitions is not 1 or more",
                    "write for example `repeat 100 {`",
                );
            };
            if open.len() == DEPTH_MAX {
                return wrong("loops are nested too deeply", "nest at most 16 loops");
            }
            open.push(program.len());
            Instruction::Repeat { count, end: 0 }
        }
        ["repeat", ..] => return wrong("takes a number and a brace", "write for example `repeat 100 {`"),
        ["}"] => {
            let Some(start) = open.pop() else { return wrong("closes no `repeat`", "remove the brace") };
            let (first, after) = (start as u32 + 1, program.len() as u32 + 1);
            if let Instruction::Repeat { end, .. } = &mut program[start] {
                *end = after;
            }
            Instruction::Next { first }
        }
        [other, ..] => {
            return Err(DescriptionError::unknown(Mistake::UnknownName, "statement", other, STATEMENTS));
        }
        [] => unreachable!("a statement has a word"),
    };
    program.push(instruction);
    Ok(())
}

fn transfer(
    writes: bool,
    file: &str,
    size: &str,
    options: &[&str],
    names: Names,
) -> Result<Transfer, DescriptionError> {
    let file = number("file", file, names.files)?;
    let bytes = bytes(size)?;
    if bytes == 0 {
        return Err(DescriptionError::invalid("", "transfers nothing").hint("give a size of at least 1B"));
    }
    let mut transfer = Transfer { file, bytes, place: Place::Next, mode: Mode::Usual, writes, direct: false };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "random" => transfer.place = Place::Random,
            "at" => {
                let offset = options.next().ok_or_else(|| {
                    DescriptionError::new(Mistake::Syntax, "", "`at` has no offset")
                        .hint("write for example `at 8KiB`")
                })?;
                transfer.place = Place::At(self::bytes(offset)?);
            }
            "direct" => transfer.direct = true,
            "sync" if writes => transfer.mode = Mode::Sync,
            "async" if writes || transfer.direct => transfer.mode = Mode::Async,
            other => {
                let known: &[&str] = if writes {
                    &["random", "at", "direct", "sync", "async"]
                } else {
                    &["random", "at", "direct", "direct async"]
                };
                return Err(DescriptionError::unknown(
                    Mistake::UnknownName,
                    "option",
                    other,
                    known.iter().copied(),
                ));
            }
        }
    }
    Ok(transfer)
}

fn number(what: &str, name: &str, names: &[&str]) -> Result<u32, DescriptionError> {
    let found = names.iter().position(|known| *known == name);
    found
        .map(|index| index as u32)
        .ok_or_else(|| DescriptionError::unknown(Mistake::UnknownName, what, name, names.iter().copied()))
}

fn duration(text: &str) -> Result<Duration, DescriptionError> {
    text.parse().map_err(|error: seeklab_core::QuantityError| quantity(&error))
}

fn bytes(text: &str) -> Result<u64, DescriptionError> {
    text.parse().map(ByteSize::as_bytes).map_err(|error: seeklab_core::QuantityError| quantity(&error))
}

fn quantity(error: &seeklab_core::QuantityError) -> DescriptionError {
    DescriptionError::invalid("", format!("`{}` {}", error.value, error.problem)).hint(error.hint.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names { files: &["in", "out"], processes: &["child", "parent"] };

    #[test]
    fn program_is_read_in_lines_or_with_semicolons() {
        let short =
            "repeat 3 { read in 4KiB; compute 5ms }; write out 1453B at 8KiB sync; fork child; wait; exit";
        let long = "repeat 3 {   # a loop\n  read in 4KiB\n  compute 5ms\n}\n\nwrite out 1453B at 8KiB sync\nfork child\nwait\nexit";
        let program = parse(short, NAMES, &mut Channels::default()).unwrap();
        assert_eq!(Ok(&program), parse(long, NAMES, &mut Channels::default()).as_ref());
        assert_eq!(program[0], Instruction::Repeat { count: 3, end: 4 });
        assert_eq!(program[3], Instruction::Next { first: 1 });
        assert_eq!(program[2], Instruction::Compute(Duration::from_ms(5)));
        let write = Transfer {
            file: 1,
            bytes: 1453,
            place: Place::At(8192),
            mode: Mode::Sync,
            writes: true,
            direct: false,
        };
        assert_eq!(program[4], Instruction::Transfer(write));
        assert_eq!(program[5..], [Instruction::Fork(0), Instruction::Wait, Instruction::Exit]);
    }

    #[test]
    fn mistakes_name_line_and_statement() {
        for (text, part) in [
            (
                "compute 5ms\nreed in 4KiB",
                "line 2, `reed in 4KiB`: unknown statement `reed`; did you mean `read`?",
            ),
            ("read inn 4KiB", "unknown file `inn`"),
            ("read in 4", "`4` has no unit"),
            ("read in", "takes a file and a size"),
            ("read in 0B", "transfers nothing"),
            ("read in 4KiB sync", "unknown option `sync`"),
            ("read in 4KiB async", "unknown option `async`"),
            ("write out 4KiB at", "`at` has no offset"),
            ("compute", "takes one time"),
            ("sleep 1s 2s", "takes one time"),
            ("fork nobody", "unknown process `nobody`"),
            ("repeat 0 { wait }", "not 1 or more"),
            ("repeat 2 { wait", "has no `}`"),
            ("wait }", "closes no `repeat`"),
            ("exit 1", "takes nothing"),
            ("lock", "takes one lock"),
            ("send rows", "takes a pipe and a size"),
            ("receive rows 4", "`4` has no unit"),
            (" # nothing", "has no statement"),
        ] {
            let error = parse(text, NAMES, &mut Channels::default()).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn locks_and_pipes_need_a_counterpart() {
        for (text, part) in [
            ("lock a; unlock b", "`lock a` has no counterpart: no program has `unlock a`"),
            ("lock a; unlock a; receive p 1B", "`receive p` has no counterpart: no program has `send p`"),
        ] {
            let mut channels = Channels::default();
            parse(text, NAMES, &mut channels).expect("each statement is right");
            let error = channels.check().expect_err(text);
            assert!(error.to_string().contains(part) && error.advice().is_some(), "{error}");
        }
        let mut channels = Channels::default();
        parse("lock a; send p 1B", NAMES, &mut channels).expect("it is right");
        let program = parse("unlock a; receive p 1B", NAMES, &mut channels).expect("it is right");
        assert_eq!(program[0], Instruction::Unlock(0), "names are those of all programs");
        assert_eq!((channels.check(), channels.counts()), (Ok(()), (1, 1)));
    }
}
