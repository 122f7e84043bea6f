//! `longhaul cp`.

use crate::args::{CopyFlags, CpArgs, OutputArgs, Via};
use crate::control::ControlSocket;
use crate::failure::Failure;
use crate::output::{self, Exit, bytes_text, files_text, path_text, say, seconds_text};
use crate::progress::{Display, Verbosity};
use crate::retry::Retries;
use crate::values::{find_token, read_file_list, token_in, words};
use crate::watch::{Board, TraceFile, Wanted, Watch, tell_outcome};
use crate::why::{self, limit_text};
use crate::{log, signals};
use longhaul::trace::Role;
use longhaul::{
    CopyOptions, Error, Fsync, LiveControl, Location, Observer, RequestError, Summary, Truncated,
};
use longhaul_proto::streams::Streams;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

/// Copy, tell, and say how it ended.
pub fn run(args: &CpArgs) -> Exit {
    let flags = &args.flags;
    let manner = Manner {
        output: &flags.output,
        control: flags.control().name(),
        dry_run: flags.dry_run,
        // What it says must not get into the data.
        is_aside: args.paths.last().is_some_and(|dest| dest == PIPE),
        metrics_file: args.metrics_file.as_deref(),
    };
    attempt(&manner, |display| {
        let mut request = request(args, display)?;
        request.options.began = Some(output::program_start());
        if let Some(path) = &args.trace {
            display.set_trace(TraceFile::create(path, request.role())?);
        }
        let _socket = ControlSocket::open(display.board(), &mut request.options);
        let stop = signals::stop_flag()?;
        let Request { sources, dest, options } = &request;
        let copy = |display: &mut Display| longhaul::copy(sources, dest, options, display, stop.clone());
        flags.retry.run(&stop, display, copy).map_err(|error| match error {
            Error::Interrupted if has_pipe(args) => Failure::PipeInterrupted,
            error => error.into(),
        })
    })
}

/// What is told of a copy, and how.
pub struct Manner<'a> {
    /// As the user wants it.
    pub output: &'a OutputArgs,
    /// Name of the controller.
    pub control: &'a str,
    /// Nothing is changed.
    pub dry_run: bool,
    /// Standard output is for the data.
    pub is_aside: bool,
    /// A file of metrics.
    pub metrics_file: Option<&'a Path>,
}

impl<'a> Manner<'a> {
    /// Of what is no copy that the user described himself.
    pub fn plain(output: &'a OutputArgs) -> Manner<'a> {
        Manner { output, control: "", dry_run: false, is_aside: false, metrics_file: None }
    }

    fn wanted(&self) -> Wanted<'a> {
        Wanted { json: self.output.json, is_aside: self.is_aside, metrics_file: self.metrics_file }
    }
}

/// Do what comes to the summary of a copy, and tell of it.
pub fn attempt(manner: &Manner<'_>, work: impl FnOnce(&mut Display) -> Result<Summary, Failure>) -> Exit {
    let (how, board) = (manner.output, Arc::new(Board::default()));
    let verbosity = Verbosity { progress: how.progress, quiet: how.quiet, why: how.why };
    let mut display = Display::new(verbosity, board.clone());
    let begun = log::start("off").and_then(|()| Watch::start(manner.wanted(), &board));
    let (outcome, watch) = match begun {
        Ok(watch) => (work(&mut display), Some(watch)),
        Err(failure) => (Err(failure), None),
    };
    let trace = display.take_trace();
    let latest = display.finish();
    let (summary, exit) = match outcome {
        Ok(summary) => {
            tell(how, manner.dry_run, &summary);
            let exit = if summary.ok { Exit::Done } else { Exit::Failed };
            (summary, exit)
        }
        Err(failure) => {
            let text = failure.to_string();
            output::error(&text);
            let mut summary = output::failed_summary(&text, manner.control);
            why::fill_in(&mut summary, &latest);
            (summary, Exit::from(&failure))
        }
    };
    trace.into_iter().for_each(|trace| trace.end(&summary));
    match watch {
        Some(watch) => watch.end(&board, &summary),
        None => tell_outcome(how.json, manner.is_aside, &summary),
    }
    exit
}

/// What the library is asked to do.
struct Request {
    sources: Vec<Location>,
    dest: Location,
    options: CopyOptions,
}

impl Request {
    /// What this host does in it.
    fn role(&self) -> Role {
        let is_here = |location: &Location| matches!(location, Location::Local(_) | Location::Pipe);
        match (self.sources.iter().all(is_here), is_here(&self.dest)) {
            (true, _) => Role::Sender,
            (false, true) => Role::Receiver,
            (false, false) => Role::Arranger,
        }
    }
}

fn request(args: &CpArgs, observer: &mut dyn Observer) -> Result<Request, Failure> {
    // Flags may stand between them, so that they are counted here.
    if args.paths.len() < 2 {
        return Err(Failure::Usage("only one path is given: a copy needs <SRC>... and <DST>".into()));
    }
    // That it requires --plan is not asked where what that conflicts with is given.
    if args.part.is_some() {
        return Err(Failure::Usage("--part is one of a plan; name that with --plan".into()));
    }
    let place = |arg: &OsString| if arg == PIPE { Ok(Location::Pipe) } else { location(arg) };
    let mut sources = args.paths.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let dest = sources.pop().ok_or(longhaul::Error::from(RequestError::NoSource))?;
    if has_pipe(args) && args.flags.retry != Retries::Never {
        let text = "what went through a pipe cannot be had again; leave out --retry with -";
        return Err(Failure::Usage(text.into()));
    }
    let mut options = options(&args.flags, observer)?;
    options.via_here = args.via == Some(Via::Here);
    if let Some(file) = args.dest_token_file.as_deref() {
        let token = token_in("--dest-token-file", file).map_err(Failure::Usage)?;
        token.warning.iter().for_each(|warning| observer.warning(warning));
        options.dest_token = Some(token.secret);
    }
    Ok(Request { sources, dest, options })
}

fn has_pipe(args: &CpArgs) -> bool {
    args.paths.iter().any(|path| path == PIPE)
}

/// A source or a destination.
pub fn location(arg: &OsString) -> Result<Location, Failure> {
    if arg == PIPE {
        let text = "- (standard input or output) goes with longhaul cp alone; a file of that name is ./-";
        return Err(Failure::Usage(text.into()));
    }
    Ok(Location::parse(arg).map_err(longhaul::Error::from)?)
}

/// How to copy.
pub fn options(flags: &CopyFlags, observer: &mut dyn Observer) -> Result<CopyOptions, Failure> {
    let token = find_token(flags.reach.token_file.as_deref()).map_err(Failure::Usage)?;
    if let Some(warning) = token.as_ref().and_then(|token| token.warning.as_deref()) {
        observer.warning(warning);
    }
    if flags.control().needs_rate() && flags.rate.as_ref().is_some_and(|rates| rates.always.is_none()) {
        let control = flags.control().name();
        let text =
            format!("--control {control} needs a rate at any time: end --rate with one that has no hours");
        return Err(Failure::Usage(text));
    }
    let files_from = flags.files_from.as_deref().map(read_file_list).transpose().map_err(Failure::Usage)?;
    let mut options = CopyOptions {
        transport: flags.transport,
        streams: match flags.streams {
            Streams::Auto => None,
            // Read as 64 at most.
            Streams::Fixed(streams) => u16::try_from(streams).ok(),
        },
        congestion: flags.congestion.clone(),
        control: flags.control(),
        select: flags.select,
        rate: flags.rate.as_ref().and_then(|rates| rates.always.filter(|_| rates.hours.is_empty())),
        live: flags.rate.clone().map(|rates| Arc::new(LiveControl::new(rates))),
        background: flags.background,
        dscp: flags.dscp,
        scitag: flags.tag.scitag,
        fireflies: flags.tag.collector()?,
        ack_every: flags.ack_every,
        batch: flags.batch,
        packet_size: flags.packet_size,
        stall_timeout: flags.stall_timeout,
        token: token.map(|token| token.secret),
        ports: flags.reach.ports.clone(),
        ssh_command: words(flags.reach.ssh.as_deref()),
        deploy: !flags.reach.no_deploy,
        bind: flags.reach.bind.clone(),
        paths: flags.reach.over_paths,
        files_from,
        ..CopyOptions::default()
    };
    options.files.resume = !flags.no_resume;
    options.files.checksum = flags.checksum;
    options.files.delta = flags.delta;
    options.files.delete = flags.delete;
    options.files.dry_run = flags.dry_run;
    options.files.fsync = match (flags.fsync, flags.no_fsync) {
        (true, _) => Fsync::Always,
        (_, true) => Fsync::Never,
        _ => Fsync::Auto,
    };
    options.files.exclude.clone_from(&flags.exclude);
    options.files.preserve = flags.keep.preserve();
    Ok(options)
}

/// The end of the story on standard error: why, what failed, one line of summary.
fn tell(how: &OutputArgs, dry_run: bool, summary: &Summary) {
    if how.why {
        why::lines(summary).iter().for_each(|line| say(line));
    }
    if dry_run && !how.quiet {
        list("would copy", &summary.to_copy);
        list("would remove", &summary.removed_paths);
    } else if how.why {
        list("removed", &summary.removed_paths);
    }
    for failure in &summary.failures {
        output::error(&format!("{}: {}", path_text(&failure.path), failure.reason));
    }
    let named = summary.failures.len() as u64;
    if named > 0 && summary.files_failed > named {
        output::error(&format!("and {} more", summary.files_failed - named));
    }
    match &summary.error {
        Some(error) if !summary.ok && summary.failures.is_empty() => output::error(error),
        _ => {}
    }
    if !how.quiet {
        say(&summary_text(summary, dry_run));
    }
}

/// A line for each path that is told.
fn list(what: &str, paths: &Truncated<Vec<u8>>) {
    paths.first.iter().for_each(|path| say(&format!("{what} {}", path_text(path))));
    if paths.more > 0 {
        say(&format!("{what} {} more", paths.more));
    }
}

fn summary_text(summary: &Summary, dry_run: bool) -> String {
    let files = match summary.files_failed {
        0 => files_text(summary.files),
        failed if dry_run => format!("{}, {failed} failed", files_text(summary.files)),
        failed => format!("{} in place, {failed} failed", files_text(summary.files_in_place)),
    };
    let size = bytes_text(summary.bytes);
    let by_time = summary.skipped_bytes.saturating_sub(summary.compared_bytes);
    let already = [
        (by_time, "already there by size and time"),
        (summary.compared_bytes, "compared and equal"),
        (summary.resumed_bytes, "resumed"),
        (summary.delta_bytes, "taken over"),
    ];
    let already = already.iter().filter(|(bytes, _)| *bytes > 0);
    let already = already.map(|(bytes, what)| format!("{} {what}", bytes_text(*bytes)));
    if dry_run {
        let parts: Vec<_> =
            [format!("dry run, nothing changed: {size} in {files}")].into_iter().chain(already).collect();
        let removed = (summary.removed > 0).then(|| format!("{} to be removed", summary.removed));
        return parts.into_iter().chain(removed).collect::<Vec<_>>().join(", ");
    }
    let speed = format!("{} in {} ({:.1} Mb/s)", size, seconds_text(summary.seconds), summary.goodput_mbps);
    let mut parts: Vec<_> = [speed, files].into_iter().chain(already).collect();
    parts.extend((summary.removed > 0).then(|| format!("{} removed", summary.removed)));
    parts.push(verified_text(summary, by_time).into());
    parts.extend(summary.durable.then(|| "on the disk".into()));
    parts.extend(summary.relayed.then(|| "relayed through this host".into()));
    parts.extend(limit_text(summary.limited_by).map(|limit| format!("limited by {limit}")));
    parts.join(", ")
}

/// What can be said of contents: nothing of files that were skipped by size and time.
fn verified_text(summary: &Summary, by_time: u64) -> &'static str {
    match summary {
        Summary { hash_verified: true, .. } => "verified",
        Summary { ok: true, .. } if by_time < summary.bytes => "the rest verified",
        Summary { ok: true, .. } => "contents not compared",
        _ => "not verified",
    }
}

/// Standard input as a source, standard output as a destination.
const PIPE: &str = "-";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use longhaul::Limit;

    fn parsed(args: &[&str]) -> Result<Request, Failure> {
        let line = ["longhaul", "cp"].iter().chain(args);
        let Command::Cp(cp) = Cli::try_parse_from(line).unwrap().command else { panic!() };
        request(&cp, &mut ())
    }

    fn usage(args: &[&str]) -> String {
        match parsed(args) {
            Err(Failure::Usage(text)) => text,
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("{args:?} were taken"),
        }
    }

    #[test]
    fn flags_reach_the_library() {
        let request = parsed(&[
            "--control=fixed",
            "--rate=50MB/s",
            "--select=random",
            "--no-resume",
            "--fsync",
            "--exclude=*.o",
            "--exclude=tmp/",
            "--ports=7700-7710",
            "--ssh=ssh -p 99",
            "--no-deploy",
            "--packet-size=1024",
            "--dry-run",
            "--delta",
            "--transport=stripe",
            "--streams=8",
            "--congestion=cubic",
            "a",
            "h:b",
        ])
        .unwrap();
        let options = request.options;
        assert_eq!(
            (options.control.name(), options.select.map(|kind| kind.name())),
            ("fixed", Some("random"))
        );
        assert_eq!(options.rate.unwrap().0, 400_000_000);
        assert_eq!(options.files.fsync, Fsync::Always);
        assert!(!options.files.resume && options.files.dry_run && !options.files.delete && !options.deploy);
        assert_eq!(
            (options.files.exclude.as_slice(), options.files.delta),
            (&["*.o".into(), "tmp/".into()][..], longhaul::Delta::Always)
        );
        let carried = (options.transport, options.streams, options.congestion.as_deref());
        assert_eq!(carried, (longhaul::Transport::Stripe, Some(8), Some("cubic")));
        assert_eq!((options.ports, options.packet_size), (Some(7700..=7710), Some(1024)));
        assert_eq!(request.dest, Location::Ssh { host: "h".into(), path: b"b".into() });
    }

    #[test]
    fn without_flags_the_library_decides() {
        let options = parsed(&["a", "h:b"]).unwrap().options;
        assert_eq!(format!("{options:?}"), format!("{:?}", CopyOptions::default()));
        let options = parsed(&["--fsync", "--no-fsync", "a", "h:b"]).unwrap().options;
        assert_eq!(options.files.fsync, Fsync::Never, "the last one counts");
    }

    #[test]
    fn nonsense_is_named() {
        assert!(usage(&["--retry=3", "-", "h:b"]).contains("--retry"));
        assert!(location(&"-".into()).is_err_and(|error| error.to_string().contains("./-")));
        assert!(usage(&["a", ""]).contains("empty path"));
        assert!(usage(&["--token-file=/nowhere/t", "a", "longhaul://h/"]).contains("no such file"));
    }

    #[test]
    fn the_summary_is_one_line() {
        let mut summary = Summary {
            ok: true,
            files: 12,
            bytes: 40_000_000,
            seconds: 3.91,
            goodput_mbps: 81.84,
            limited_by: Limit::Path,
            hash_verified: true,
            ..Summary::default()
        };
        let text = summary_text(&summary, false);
        assert_eq!(text, "40.0 MB in 3.9 s (81.8 Mb/s), 12 files, verified, limited by the path");
        summary.durable = true;
        let text = summary_text(&summary, false);
        assert!(text.ends_with("12 files, verified, on the disk, limited by the path"), "{text}");
        summary = Summary {
            files_in_place: 10,
            files_failed: 2,
            skipped_bytes: 10_000_000,
            compared_bytes: 4_000_000,
            resumed_bytes: 500_000,
            delta_bytes: 1_000,
            hash_verified: false,
            ..summary
        };
        let text = summary_text(&summary, false);
        let already = "6.0 MB already there by size and time, 4.0 MB compared and equal, 500.0 kB resumed, 1.0 kB taken over";
        assert!(
            text.contains(&format!("10 files in place, 2 failed, {already}, the rest verified")),
            "{text}"
        );
        summary.delta_bytes = 0;
        summary.removed = 3;
        assert!(summary_text(&summary, false).contains("500.0 kB resumed, 3 removed, the rest verified"));
        let nothing = Summary { skipped_bytes: 40_000_000, compared_bytes: 0, ..summary.clone() };
        assert!(summary_text(&nothing, false).contains("contents not compared"));
        let text = summary_text(&summary, true);
        assert!(text.ends_with("500.0 kB resumed, 3 to be removed"), "{text}");
        assert!(
            text.starts_with("dry run, nothing changed: 40.0 MB in 12 files, 2 failed, 6.0 MB already"),
            "{text}"
        );
    }
}
