//! A world in which one thing goes wrong, at one place: clock, cancellation, watcher, transport, tools and disk
//! count the places they pass, and strike at theirs.

use crate::kit::{Kit, redactor, studio};
use futures::future::BoxFuture;
use harness::agent::{Finished, Identity, started_fact};
use harness::driver::{Observer, Setup, drive, resume};
use harness::hands::LiveHands;
use harness::machine::Event;
use harness::model::scripted::Scripted;
use harness::model::{Delta, Reply, Transport, WireRequest};
use harness::policy::{CanUse, Permit};
use harness::port::{Live, Ports};
use harness::team::{Caller, TeamHands, unheard};
use harness::tool::{Tool, ToolSpec, Toolbox};
use serde_json::Value;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;
use trace::fact::{Chunk, Fact, Fault, PersonAnswered, PersonAsked, Resumed};
use trace::id::{RunId, TraceId};
use trace::outcome::{FaultClass, Outcome};
use trace::tape::{Disk, Tape, TapeError, TapeWriter};

/// When runs of these suites begin, nanoseconds since 1970.
const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
/// An hour, in nanoseconds.
pub(super) const HOUR_NS: i64 = 3_600_000_000_000;

/// What strikes, and at which of the places of its kind, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strike {
    /// Nothing does.
    Nothing,
    /// The run is cancelled just before the driver goes on for this time.
    Cancel(usize),
    /// The run is cancelled by who hears of it for this time.
    CancelAt(usize),
    /// The driver is dropped instead of going on for this time.
    Drop(usize),
    /// The watcher panics when it hears of the run for this time.
    Watcher(usize),
    /// The transport panics instead of bringing this piece of an answer.
    Piece(usize),
    /// This call of a tool panics.
    Tool(usize),
    /// From this question on, the clock is off by so many nanoseconds.
    Clock(usize, i64),
    /// The first answer ends after so many bytes, as if it were whole, or with the connection broken.
    Body(usize, bool),
    /// The disk fails in the middle of this line, and for good.
    Disk(usize),
}

/// How many places of each kind a run has passed.
#[derive(Debug, Default)]
struct Passed {
    polls: AtomicUsize,
    heard: AtomicUsize,
    pieces: AtomicUsize,
    calls: AtomicUsize,
    times: AtomicUsize,
    lines: AtomicUsize,
}

/// How many places of each kind there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    polls: usize,
    heard: usize,
    pieces: usize,
    calls: usize,
    times: usize,
    lines: usize,
}

impl Places {
    /// A strike of each kind at each of its places.
    pub(super) fn strikes(self, jump_ns: i64) -> Vec<Strike> {
        let each = |places: usize, strike: fn(usize) -> Strike| (0..places).map(strike).collect::<Vec<_>>();
        let jumps = |by: i64| (0..self.times).map(move |at| Strike::Clock(at, by));
        [
            each(self.polls, Strike::Cancel),
            each(self.heard, Strike::CancelAt),
            each(self.polls, Strike::Drop),
            each(self.heard, Strike::Watcher),
            each(self.pieces, Strike::Piece),
            each(self.calls, Strike::Tool),
            jumps(jump_ns).chain(jumps(-jump_ns)).collect(),
            each(self.lines, Strike::Disk),
        ]
        .concat()
    }
}

/// A world and what strikes in it.
#[derive(Debug, Clone)]
pub(super) struct World(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    strike: Strike,
    passed: Passed,
    live: Live,
    began: Instant,
    begin_ns: i64,
    kit: Kit,
    cancelled_at: OnceLock<Instant>,
}

impl World {
    pub(super) fn new(kit: &Kit, strike: Strike) -> Self {
        Self::at(kit, strike, BEGIN_NS, Duration::ZERO)
    }

    /// The world of another process that goes on with this tape, on a machine whose clock is an hour off, behind or
    /// ahead. It has the wall time that is left.
    pub(super) fn after(kit: &Kit, tape: &Tape) -> Self {
        let off = if tape.lines().len().is_multiple_of(2) { -HOUR_NS } else { HOUR_NS };
        Self::at(kit, Strike::Nothing, BEGIN_NS + off, harness::agent::ran_for(tape))
    }

    fn at(kit: &Kit, strike: Strike, begin_ns: i64, worked: Duration) -> Self {
        let wall_time = Duration::from_secs(kit.config.budget.max_wall_time_seconds).saturating_sub(worked);
        let live = Live::new(kit.cancel.clone(), wall_time).with_person(kit.person.clone());
        let (passed, began, cancelled_at) = (Passed::default(), Instant::now(), OnceLock::new());
        Self(Arc::new(Inner { strike, passed, live, began, begin_ns, kit: kit.clone(), cancelled_at }))
    }

    /// How long ago the run was cancelled, if it was.
    pub(super) fn since_cancelled(&self) -> Option<Duration> {
        self.0.cancelled_at.get().map(Instant::elapsed)
    }

    fn cancel(&self) {
        self.0.cancelled_at.get_or_init(Instant::now);
        self.0.kit.cancel.cancel();
    }

    pub(super) fn places(&self) -> Places {
        let of = |passed: &AtomicUsize| passed.load(Ordering::SeqCst);
        let passed = &self.0.passed;
        Places {
            polls: of(&passed.polls),
            heard: of(&passed.heard),
            pieces: of(&passed.pieces),
            calls: of(&passed.calls),
            times: of(&passed.times),
            lines: of(&passed.lines),
        }
    }

    /// Passes a place, and tells whether it is the one that is struck.
    fn is_struck(&self, strike: impl Fn(usize) -> Strike, passed: &AtomicUsize) -> bool {
        self.0.strike == strike(passed.fetch_add(1, Ordering::SeqCst))
    }

    /// A setup whose runs beside it have their tapes in this folder.
    fn setup(&self, kit: &Kit, tapes: &Path) -> Setup {
        let ports: Arc<dyn Ports> = Arc::new(self.clone());
        let setup = kit.setup_with(self.toolbox(kit), ports.clone(), self.transport(kit));
        let caller = Caller { identity: identity(), studio: studio(tapes), cancel: kit.cancel.clone() };
        let retries = kit.config.budget.max_retries_per_tool_call;
        let live = LiveHands::new(setup.toolbox.clone(), ports.clone(), retries);
        let hands = TeamHands::new(live, setup.toolbox.clone(), ports, caller);
        Setup { hands: Arc::new(hands), ..setup }
    }

    fn transport(&self, kit: &Kit) -> Arc<dyn Transport> {
        Arc::new(Pieces { inner: kit.scripted(), world: self.clone() })
    }

    /// The tools, and the agents that are some, all of this world.
    fn toolbox(&self, kit: &Kit) -> Toolbox {
        let mut toolbox = Toolbox::default();
        for tool in &kit.tools {
            let tool: Arc<dyn Tool> = tool.clone();
            toolbox.add(Arc::new(Called { inner: tool, world: self.clone() })).unwrap();
        }
        for (table, agent) in &kit.agents {
            let ready = agent.ready_with(agent.model(self.transport(agent)), self.toolbox(agent));
            toolbox.employ(table, Arc::new(ready)).unwrap();
        }
        toolbox
    }

    /// Runs the kit as a program does, its preparation first, onto tapes in this folder; `None` where all of it was
    /// dropped.
    pub(super) async fn perform_whole(&self, kit: &Kit, tapes: &Path) -> Option<Finished> {
        let agent = kit.ready_with(kit.model(self.transport(kit)), self.toolbox(kit));
        let (studio, mut observer) = (studio(tapes), self.clone());
        let run = agent.run(kit.task.clone(), &studio, kit.cancel.clone(), &mut observer);
        self.polled(run).await.map(Result::unwrap)
    }

    /// Runs the kit onto a tape; `None` where the driver was dropped.
    pub(super) async fn perform(&self, kit: &Kit, path: &Path) -> Option<Result<Outcome, TapeError>> {
        let disk = Memory { bytes: Arc::default(), world: self.clone(), failed: false };
        let bytes = disk.bytes.clone();
        let setup = self.setup(kit, path.parent().unwrap());
        let ended = self.polled(begin(&setup, kit, disk, path)).await;
        std::fs::write(path, &*bytes.lock().unwrap()).unwrap();
        ended
    }

    /// Goes on with a tape where it lies.
    pub(super) async fn go_on(&self, kit: &Kit, tape: &Tape) -> Outcome {
        let tapes = tape.path().parent().unwrap();
        let setup = self.setup(kit, tapes);
        let mut writer = TapeWriter::reopen(tape, Arc::new(redactor())).unwrap();
        let children = unheard(tape, tapes);
        let resumed = Resumed { children, ..serde_json::from_str("{}").unwrap() };
        resume(&setup, tape, tape.lines(), resumed, &mut writer, &mut self.clone()).await.unwrap()
    }

    /// Somebody comes back to a run that waits, in the same world and with what the model has not said yet; `None`
    /// where the driver was dropped.
    pub(super) async fn come_back(&self, kit: &Kit, path: &Path) -> Option<Outcome> {
        let tape = Tape::read(path).unwrap();
        let rest = super::proof::unsaid(kit, &[&tape]);
        self.polled(self.go_on(&kit.clone().say(rest), &tape)).await
    }

    async fn polled<T>(&self, run: impl Future<Output = T>) -> Option<T> {
        let mut run = pin!(run);
        std::future::poll_fn(|context| {
            let nth = self.0.passed.polls.fetch_add(1, Ordering::SeqCst);
            match self.0.strike {
                Strike::Drop(at) if at == nth => return Poll::Ready(None),
                Strike::Cancel(at) if at == nth => self.cancel(),
                _ => {}
            }
            run.as_mut().poll(context).map(Some)
        })
        .await
    }

    fn hear(&self) {
        let nth = self.0.passed.heard.fetch_add(1, Ordering::SeqCst);
        match self.0.strike {
            Strike::Watcher(at) if at == nth => panic!("a watcher that panics, as this story wants it"),
            Strike::CancelAt(at) if at == nth => self.cancel(),
            _ => {}
        }
    }
}

async fn begin(setup: &Setup, kit: &Kit, disk: Memory, path: &Path) -> Result<Outcome, TapeError> {
    let mut observer = disk.world.clone();
    let mut writer = TapeWriter::start(path.to_owned(), disk, BEGIN_NS, Arc::new(redactor()))?;
    let started = started_fact(&setup.config, &setup.toolbox, &kit.task, identity(), &mut writer)?;
    drive(setup, started, &mut writer, &mut observer).await
}

/// Who every run of these suites is.
fn identity() -> Identity {
    Identity { run_id: RunId::from_draw(7), trace_id: TraceId::new([7; 16]) }
}

impl Ports for World {
    fn now_ns(&self) -> i64 {
        let nth = self.0.passed.times.fetch_add(1, Ordering::SeqCst);
        let off = match self.0.strike {
            Strike::Clock(at, by) if nth >= at => by,
            _ => 0,
        };
        self.0.begin_ns + i64::try_from(self.0.began.elapsed().as_nanos()).unwrap() + off
    }

    fn draw(&self) -> u64 {
        7
    }

    fn sleep(&self, how_long: Duration) -> BoxFuture<'_, ()> {
        self.0.live.sleep(how_long)
    }

    fn interrupted(&self) -> Option<String> {
        self.0.live.interrupted()
    }

    fn interruption(&self) -> BoxFuture<'_, ()> {
        self.0.live.interruption()
    }

    fn ask_person<'a>(&'a self, asked: &'a PersonAsked) -> BoxFuture<'a, Option<PersonAnswered>> {
        self.0.live.ask_person(asked)
    }
}

impl Observer for World {
    fn recorded(&mut self, _seq: u64, _at_ns: i64, _fact: &Fact) {
        self.hear();
    }

    fn delta(&mut self, _delta: &Delta) {
        self.hear();
    }

    fn event(&mut self, _event: &Event) {
        self.hear();
    }
}

/// Brings what a script says piece by piece, and lets others go on in between.
#[derive(Debug)]
struct Pieces {
    inner: Arc<Scripted>,
    world: World,
}

impl Pieces {
    async fn bring(
        &self,
        request: &WireRequest,
        on_chunk: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<Reply, Fault> {
        let mut reply = self.inner.send(request, &mut |_| {}).await?;
        if let Strike::Body(bytes, breaks) = self.world.0.strike
            && self.inner.requests() == 1
        {
            reply.body.truncate(bytes);
            reply.chunks = vec![Chunk { bytes: u32::try_from(reply.body.len()).unwrap(), after_ns: 0 }];
            reply.cut = breaks.then(|| Fault::new(FaultClass::Transient, "the connection broke"));
        }
        let mut left = &reply.body[..];
        for chunk in &reply.chunks {
            let (piece, rest) = left.split_at(chunk.bytes as usize);
            left = rest;
            if self.world.is_struck(Strike::Piece, &self.world.0.passed.pieces) {
                panic!("a transport that panics, as this story wants it");
            }
            on_chunk(piece);
            tokio::task::yield_now().await;
        }
        Ok(reply)
    }
}

impl Transport for Pieces {
    fn send<'a>(
        &'a self,
        request: &'a WireRequest,
        on_chunk: &'a mut (dyn FnMut(&[u8]) + Send),
    ) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(self.bring(request, on_chunk))
    }
}

/// A tool that may be struck when it is called.
#[derive(Debug)]
struct Called {
    inner: Arc<dyn Tool>,
    world: World,
}

impl Tool for Called {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn validate(&self, arguments: &Value) -> Result<(), String> {
        self.inner.validate(arguments)
    }

    fn can_use(&self, arguments: &Value) -> Result<CanUse, String> {
        self.inner.can_use(arguments)
    }

    fn may_ask(&self) -> bool {
        self.inner.may_ask()
    }

    fn call<'a>(&'a self, permit: &'a Permit) -> BoxFuture<'a, Result<String, Fault>> {
        let is_struck = self.world.is_struck(Strike::Tool, &self.world.0.passed.calls);
        Box::pin(async move {
            let done = self.inner.call(permit).await;
            if is_struck {
                panic!("a tool that panics after its effect, as this story wants it");
            }
            done
        })
    }
}

/// A disk in memory that may fail in the middle of a line.
#[derive(Debug)]
struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    world: World,
    failed: bool,
}

impl Disk for Memory {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.failed && self.world.is_struck(Strike::Disk, &self.world.0.passed.lines) {
            self.failed = true;
            self.bytes.lock().unwrap().extend(&bytes[..bytes.len() / 2]);
        }
        if self.failed {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.bytes.lock().unwrap().extend(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.failed { Err(io::Error::from(io::ErrorKind::StorageFull)) } else { Ok(()) }
    }
}
