//! The emulation behind a frontend that keeps its replies, on the real clock; nothing here depends on how long that takes.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use seeklab_core::{
    ByteSize, Capabilities, Completion, Criticality, Device, Outcome, Reclassification, Rejected, Seed,
    Status,
};
use seeklab_devices::Description;
use seeklab_devices::simple::{Server, ServerParameters};

use super::*;
use crate::frontend::{Reply, Stop};
use crate::pacer::Options;
use crate::store::Access;

pub(super) const BLOCK: u64 = 512;
const SIZE: u64 = 1 << 20;

/// A server of no time whose requests in the second half of its blocks fail.
struct HalfBroken(Box<dyn Device>);

impl HalfBroken {
    fn new() -> Self {
        let parameters = ServerParameters {
            capacity_blocks: SIZE / BLOCK,
            block_size: ByteSize::from_bytes(BLOCK),
            service_time: Duration::ZERO,
        };
        Self(Box::new(Server::constant(&parameters).unwrap()))
    }
}

impl Device for HalfBroken {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        self.0.submit(now, request)
    }

    fn reclassify(&mut self, now: Instant, change: &Reclassification) -> Option<Criticality> {
        self.0.reclassify(now, change)
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let before = completions.len();
        self.0.poll(now, completions);
        for completion in &mut completions[before..] {
            if completion.request.lbn >= SIZE / BLOCK / 2 {
                completion.outcome = Outcome::failed(Status::MediumError);
            }
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.0.next_event()
    }

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(Self(self.0.fork()))
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A frontend whose client takes replies when the test wants it to.
pub(super) struct Kept {
    never: Stop,
    takes: bool,
    prepared: Vec<Tag>,
    replies: BTreeMap<Tag, Result<Option<Vec<u8>>, ErrorCode>>,
    clock: Clock,
}

impl Kept {
    pub(super) fn new(clock: Clock) -> Self {
        let never = Stop::new().unwrap();
        Self { never, takes: true, prepared: Vec::new(), replies: BTreeMap::new(), clock }
    }
}

impl Frontend for Kept {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.never.descriptor()
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn receive(&mut self, _: &mut dyn FnMut(Command<'_>)) -> io::Result<()> {
        Ok(())
    }

    fn reply(&mut self, tag: Tag, reply: Reply<'_>) {
        let reply = match reply {
            Reply::Done | Reply::Extents(_) => Ok(None),
            Reply::Failed(code) | Reply::Part { code, .. } => Err(code),
            Reply::Data(fill) => {
                let mut bytes = vec![0; BLOCK as usize];
                fill(&mut bytes).map(|_| Some(bytes))
            }
        };
        self.prepared.push(tag);
        self.replies.insert(tag, reply);
    }

    fn send(&mut self, left: &mut dyn FnMut(Tag, Departure)) -> io::Result<()> {
        if self.takes {
            let now = self.clock.now();
            self.prepared.drain(..).for_each(|tag| left(tag, Departure::Taken(now)));
        }
        Ok(())
    }

    fn shut_down(&mut self) {}

    fn is_drained(&self) -> bool {
        self.prepared.is_empty()
    }
}

fn emulation(store: Store) -> (Emulation, Kept) {
    let clock = Clock::start();
    let pacer = Pacer::new(Box::new(HalfBroken::new()), Options::default());
    (Emulation::new(pacer, store, clock), Kept::new(clock))
}

fn ram() -> Store {
    let size = ByteSize::from_bytes(SIZE);
    Store::in_ram(size, Some(size)).unwrap()
}

pub(super) fn tag(command: u32) -> Tag {
    Tag { frontend: 0, client: 0, command }
}

/// Lets a command arrive now, one block long.
fn take(emulation: &mut Emulation, command: u32, offset_bytes: u64, action: Action<'_>) {
    let arrived = emulation.clock.now();
    let length_bytes = if action == Action::Flush { 0 } else { BLOCK as u32 };
    emulation.take(Command { tag: tag(command), arrived, offset_bytes, length_bytes, fua: false, action });
}

/// Replies as the loop does until there is nothing to wait for.
fn settle(emulation: &mut Emulation, frontend: &mut Kept) {
    loop {
        let next = emulation.reply(emulation.clock.now(), frontend).unwrap();
        frontend.send(&mut |tag, departure| emulation.left(tag, departure)).unwrap();
        if next == Next::WaitUntil(None) && emulation.stalled.is_empty() {
            return;
        }
    }
}

#[test]
fn requests_that_the_model_fails_are_answered_with_the_error_of_their_status() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let in_file = || Store::in_file(&path, ByteSize::from_bytes(SIZE), Access::ReadWrite).unwrap();
    for with_transfers in [false, true] {
        let store = if with_transfers { in_file() } else { ram() };
        let clock = Clock::start();
        let transfers = match &store {
            Store::File(file) => Transfers::over(file, clock).ok(),
            Store::Ram(_) => None,
        };
        let (emulation, mut frontend) = emulation(store);
        let mut emulation = emulation.over(transfers);
        for (half, command) in [(0, 0), (SIZE / 2, 3)] {
            take(&mut emulation, command, half, Action::Write(&[7; BLOCK as usize]));
            take(&mut emulation, command + 1, half, Action::Read);
            take(&mut emulation, command + 2, half, Action::Discard);
            settle(&mut emulation, &mut frontend);
        }
        assert_eq!(frontend.replies[&tag(0)], Ok(None));
        assert!(matches!(frontend.replies[&tag(1)], Ok(Some(_))));
        assert_eq!(frontend.replies[&tag(2)], Ok(None));
        for command in 3..6 {
            assert_eq!(frontend.replies[&tag(command)], Err(ErrorCode::Medium), "{command}");
        }
        let (statistics, ..) = emulation.finish();
        assert_eq!((statistics.requests, statistics.failed_requests, statistics.refused), (6, 3, 0));
        assert_eq!(statistics.response.moments().count(), 3, "failed requests are no part of the times");
    }
}

#[test]
fn writes_to_a_read_only_store_are_not_permitted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![0; SIZE as usize]).unwrap();
    let store = Store::in_file(&path, ByteSize::from_bytes(SIZE), Access::ReadOnly).unwrap();
    let (mut emulation, mut frontend) = emulation(store);
    take(&mut emulation, 0, 0, Action::Write(&[7; BLOCK as usize]));
    take(&mut emulation, 1, 0, Action::Discard);
    settle(&mut emulation, &mut frontend);
    for command in 0..2 {
        assert_eq!(frontend.replies[&tag(command)], Err(ErrorCode::Permission));
    }
    assert_eq!(emulation.statistics().refused, 2);
}

#[test]
fn replies_that_a_client_does_not_take_are_late_by_its_fault() {
    let (mut emulation, mut frontend) = emulation(ram());
    frontend.takes = false;
    for command in 0..100 {
        take(&mut emulation, command, 0, Action::Read);
        settle(&mut emulation, &mut frontend);
    }
    assert_eq!(emulation.statistics().requests, 0, "none has left");
    let limit = Duration::from_ms(1);
    emulation = emulation.judged_by(Deadlines::new(limit, Duration::ZERO));
    let taken_from = emulation.clock.now() + Duration::from_ms(5);
    while emulation.clock.now() < taken_from {
        std::hint::spin_loop();
    }
    frontend.takes = true;
    settle(&mut emulation, &mut frontend);
    // Booked in the next turn.
    settle(&mut emulation, &mut frontend);
    let deadlines = &emulation.statistics().deadlines;
    assert_eq!((emulation.statistics().requests, deadlines.misses()), (100, 100));
    let by_client = deadlines.missed(MissCause::ClientNotReading);
    // A reply that the machine held up for longer than the limit before it was offered is not the client's.
    assert!(by_client > 50, "{by_client}");
}

#[test]
fn replies_to_clients_that_have_gone_are_not_late() {
    let (mut emulation, mut frontend) = emulation(ram());
    frontend.takes = false;
    take(&mut emulation, 0, 0, Action::Read);
    settle(&mut emulation, &mut frontend);
    emulation.left(tag(0), Departure::Dropped);
    take(&mut emulation, 1, 0, Action::Read);
    settle(&mut emulation, &mut frontend);
    let (statistics, ..) = emulation.finish();
    assert_eq!((statistics.requests, statistics.undelivered_replies), (2, 2));
    assert_eq!(statistics.deadlines.lateness().moments().count(), 0);
}

#[test]
fn reply_that_does_not_leave_holds_back_few_others() {
    let (emulation, mut frontend) = emulation(ram());
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&shown);
    let mut emulation = emulation.observed_by(Box::new(move |record| seen.lock().unwrap().push(*record)));
    emulation.waiting_max = 10;
    frontend.takes = false;
    take(&mut emulation, 0, 0, Action::Read);
    settle(&mut emulation, &mut frontend);
    let stuck = std::mem::take(&mut frontend.prepared);
    frontend.takes = true;
    for command in 1..20 {
        take(&mut emulation, command, 0, Action::Read);
        settle(&mut emulation, &mut frontend);
    }
    settle(&mut emulation, &mut frontend);
    let count = shown.lock().unwrap().len();
    assert!(count >= 10, "{count}");
    assert_eq!(shown.lock().unwrap()[0].points.mp2_completion, None, "it has not left");
    for tag in stuck {
        emulation.left(tag, Departure::Taken(emulation.clock.now()));
    }
    let (statistics, ..) = emulation.finish();
    assert_eq!(statistics.requests, 20);
    assert_eq!(shown.lock().unwrap().len(), 20, "each is shown once");
}

#[test]
fn reply_that_is_due_soon_is_sent_by_the_loop_alone() {
    let clock = Clock::start();
    let parameters = ServerParameters {
        capacity_blocks: SIZE / BLOCK,
        block_size: ByteSize::from_bytes(BLOCK),
        service_time: Duration::from_ms(2),
    };
    let device = Server::constant(&parameters).unwrap();
    let pacer = Pacer::new(Box::new(device), Options::default());
    let mut emulation = Emulation::new(pacer, ram(), clock).prepares_ahead();
    let mut frontend = Kept::new(clock);
    take(&mut emulation, 0, 0, Action::Read);
    let arrived = emulation.outstanding[0].unwrap().arrived;
    // A microsecond before it is due: within the lead, by a clock of the test.
    let due = arrived + Duration::from_ms(2);
    let early = arrived + Duration::from_us(1_999);
    let next = emulation.reply(early, &mut frontend).unwrap();
    assert_eq!(next, Next::SendAt(due));
    assert_eq!(frontend.prepared, [tag(0)], "prepared, and not sent");
    frontend.send(&mut |tag, _| emulation.left(tag, Departure::Taken(due))).unwrap();
    assert_eq!(emulation.reply(due, &mut frontend).unwrap(), Next::WaitUntil(None));
    assert_eq!(emulation.statistics().requests, 1);
    assert_eq!(emulation.statistics().deadlines.lateness().moments().max(), Some(0.0));
}

/// A disk that may lose its power, long after the test.
fn losing_power() -> Box<dyn Device> {
    let text = "kind = \"fault\"\n[[fault]]\nkind = \"power_loss\"\nat = \"1h\"\n[device]\nbase = \"cheetah-36es\"\n";
    Description::parse("disk", "disk", text).unwrap().build(Seed(1), "disk0").unwrap()
}

#[test]
fn full_store_fails_flushes_of_a_device_that_may_lose_its_power_and_ends_nothing() {
    let clock = Clock::start();
    let pacer = Pacer::new(losing_power(), Options::default());
    let size = ByteSize::from_bytes(SIZE);
    let store = Store::in_ram(size, Some(ByteSize::from_bytes(96 << 10))).unwrap();
    let mut emulation = Emulation::new(pacer, store, clock).failing(false).unwrap();
    let mut frontend = Kept::new(clock);
    let mut commands = 0;
    let mut call = |emulation: &mut Emulation, offset_bytes: u64, fua: bool, action: Action<'_>| {
        commands += 1;
        let length_bytes = if action == Action::Flush { 0 } else { BLOCK as u32 };
        let arrived = clock.now();
        emulation.take(Command { tag: tag(commands), arrived, offset_bytes, length_bytes, fua, action });
        loop {
            emulation.reply(clock.now(), &mut frontend).expect("a full store does not end the emulation");
            frontend.send(&mut |tag, departure| emulation.left(tag, departure)).unwrap();
            if let Some(reply) = frontend.replies.remove(&tag(commands)) {
                return reply;
            }
        }
    };
    let data = [7; BLOCK as usize];
    // One block of each page, until what was destaged before has filled the store.
    let places = (0..SIZE).step_by(4096);
    let mut held = Vec::new();
    let refused =
        places.clone().find(|place| match call(&mut emulation, *place, false, Action::Write(&data)) {
            Ok(_) => {
                held.push(*place);
                false
            }
            Err(code) => {
                assert_eq!(code, ErrorCode::NoSpace);
                true
            }
        });
    let refused = refused.expect("the store holds a few of the 256 pages");
    assert_eq!(call(&mut emulation, 0, false, Action::Flush), Err(ErrorCode::NoSpace));
    assert_eq!(call(&mut emulation, 0, false, Action::Flush), Err(ErrorCode::NoSpace), "not once only");
    assert_eq!(call(&mut emulation, refused, true, Action::Write(&data)), Err(ErrorCode::NoSpace));
    assert_eq!(call(&mut emulation, 0, true, Action::Write(&data)), Ok(None), "block 0 is in the store");
    for place in held {
        assert_eq!(call(&mut emulation, place, false, Action::Read), Ok(Some(data.to_vec())), "at {place}");
    }
    assert_eq!(emulation.statistics().refused, 4);
    let (_, store, kept) = emulation.finish();
    assert!(matches!(kept, Err(StoreError::NoSpace { .. })), "{kept:?}");
    let mut stored = [0; BLOCK as usize];
    store.read(0, &mut stored).unwrap();
    assert_eq!(stored, data);
}
