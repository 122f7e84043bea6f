//! Random, repeatable fuzzing with any compiler: `longhaul-fuzz [--runs N] [--seed S] [TARGET | TARGET=FILE]...`.
//!
//! `TARGET=FILE` gives a target one input from a file, such as one that made it fail.

use longhaul_fuzz::{TARGETS, Target, mutate};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use std::{env, fs, panic, thread};

fn main() -> ExitCode {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        PANICKED.store(true, Ordering::Relaxed);
        usual(info);
    }));
    match Arguments::parse(env::args().skip(1)) {
        Ok(arguments) => arguments.run(),
        Err(error) => {
            eprintln!("longhaul-fuzz: {error}");
            ExitCode::from(2)
        }
    }
}

/// Some thread has panicked, perhaps one that nobody waits for.
static PANICKED: AtomicBool = AtomicBool::new(false);

/// What to do.
struct Arguments {
    runs: u64,
    seed: u64,
    targets: Vec<&'static Target>,
    files: Vec<(&'static Target, PathBuf)>,
}

impl Arguments {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments =
            Arguments { runs: RUNS_DEFAULT, seed: SEED_DEFAULT, targets: vec![], files: vec![] };
        while let Some(arg) = args.next() {
            let mut number = || {
                let value = args.next().unwrap_or_default();
                value.parse().map_err(|_| format!("{arg} needs a number, not {value:?}"))
            };
            match (arg.as_str(), arg.split_once('=')) {
                ("--runs", _) => arguments.runs = number()?,
                ("--seed", _) => arguments.seed = number()?,
                (_, Some((name, file))) => arguments.files.push((find(name)?, file.into())),
                (name, None) => arguments.targets.push(find(name)?),
            }
        }
        if arguments.targets.is_empty() && arguments.files.is_empty() {
            arguments.targets.extend(TARGETS);
        }
        Ok(arguments)
    }

    fn run(&self) -> ExitCode {
        for (target, file) in &self.files {
            match fs::read(file) {
                Ok(input) => (target.run)(&input),
                Err(error) => {
                    eprintln!("longhaul-fuzz: {}: {error}", file.display());
                    return ExitCode::from(2);
                }
            }
            println!("{} {} ... ok", target.name, file.display());
        }
        let is_sound = match self.targets[..] {
            [target] => self.fuzz(target),
            _ => self.fuzz_side_by_side(),
        };
        if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Whether all targets took their inputs: twice as many at a time as there are processors, since sessions mostly wait; each
    /// in a process of its own, so that a thread's panic is known to be its.
    fn fuzz_side_by_side(&self) -> bool {
        let next = AtomicUsize::new(0);
        let take = || self.targets.get(next.fetch_add(1, Ordering::Relaxed));
        let work = || std::iter::from_fn(take).filter(|target| !self.fuzz_apart(target)).count();
        let at_a_time = 2 * thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..at_a_time).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(|worker| worker.join().expect("it counts")).sum::<usize>() == 0
        })
    }

    fn fuzz_apart(&self, target: &Target) -> bool {
        let program = env::current_exe().expect("a process knows its program");
        let (runs, seed) = (self.runs.to_string(), self.seed.to_string());
        let ended = Command::new(program).args(["--runs", &runs, "--seed", &seed, target.name]).status();
        ended.is_ok_and(|status| status.success())
    }

    /// Whether a target took all its inputs.
    fn fuzz(&self, target: &Target) -> bool {
        let mut seeds = (target.seeds)();
        seeds.extend(learnt(target));
        let began = Instant::now();
        let runs = self.runs.div_ceil(target.weight);
        let random = (0..runs).map(|run| {
            // Every run has a seed of its own, so that what comes of it does not hang on the runs before.
            let mut rng = fastrand::Rng::with_seed(self.seed.wrapping_add(run));
            mutate::input(&mut rng, &seeds)
        });
        for input in seeds.iter().cloned().chain(random) {
            let survived = panic::catch_unwind(|| (target.run)(&input)).is_ok();
            if !survived || PANICKED.load(Ordering::Relaxed) {
                PANICKED.store(false, Ordering::Relaxed);
                report(target, &input);
                return false;
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        println!("fuzz {} ... ok ({} seeds, {runs} runs, {seconds:.1} s)", target.name, seeds.len());
        true
    }
}

/// What the fuzzer that is guided by coverage found worth keeping, in the order of the names: equal runs are equal.
fn learnt(target: &Target) -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/");
    let entries = fs::read_dir(format!("{folder}{}", target.name)).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files.iter().filter_map(|file| fs::read(file).ok()).collect()
}

fn find(name: &str) -> Result<&'static Target, String> {
    Target::find(name).ok_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        format!("there is no target {name:?}; choose of {}", names.join(", "))
    })
}

/// Keep the input that made a target fail.
fn report(target: &Target, input: &[u8]) {
    let name = format!("longhaul-fuzz-{}-{}", target.name, &blake3::hash(input).to_hex()[..8]);
    let file = env::temp_dir().join(name);
    match fs::write(&file, input) {
        Ok(()) => println!("fuzz {0} ... FAILED; again: longhaul-fuzz {0}={1}", target.name, file.display()),
        Err(_) => println!("fuzz {} ... FAILED with {input:02x?}", target.name),
    }
}

const RUNS_DEFAULT: u64 = 50_000;
const SEED_DEFAULT: u64 = 1;
