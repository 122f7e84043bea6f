//! What an observer is told of a copy while no data moves yet.

use longhaul::daemon::policy::{Access, Policy};
use longhaul::{CopyOptions, Location, Observer, Phase, Progress, ServeOptions, copy, serve};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const TOKEN: &str = "a token that only this test knows";

/// The phases that were told, each once.
#[derive(Default)]
struct Phases(Vec<Phase>);

impl Observer for Phases {
    fn progress(&mut self, progress: &Progress) {
        if self.0.last() != Some(&progress.phase) {
            self.0.push(progress.phase);
        }
    }
}

fn phases_of(from: Location, to: &Location) -> Vec<Phase> {
    let options = CopyOptions { token: Some(TOKEN.into()), history: None, ..CopyOptions::default() };
    let mut phases = Phases::default();
    let summary = copy(&[from], to, &options, &mut phases, Arc::default()).unwrap();
    assert!(summary.ok, "{:?}", summary.error);
    phases.0
}

#[test]
fn connecting_and_comparing_are_told() {
    let (here, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(here.path().join("file"), vec![7; 3_000_000]).unwrap();
    let policy = Policy::one_folder(root.path(), TOKEN.into(), Access::ReadWrite);
    let serving = ServeOptions::new("127.0.0.1:0".parse().unwrap(), policy).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, bound) = std::sync::mpsc::channel();
    let stopping = stop.clone();
    let server = std::thread::spawn(move || serve(serving, stopping, |local| ready.send(local).unwrap()));
    let port = bound.recv().unwrap().port();
    let local = |path: &Path| Location::Local(path.into());
    let far = Location::Daemon { host: "127.0.0.1".into(), port, path: b"file".to_vec() };
    let pushed = phases_of(local(&here.path().join("file")), &far);
    let pulled = phases_of(far, &local(&here.path().join("back")));
    for phases in [pushed, pulled] {
        assert_eq!(phases[..2], [Phase::Connecting, Phase::Comparing], "{phases:?}");
    }
    stop.store(true, Ordering::Relaxed);
    server.join().unwrap().unwrap();
}
