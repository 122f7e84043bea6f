//! `longhaul serve`.

mod audit;
mod metrics;
mod page;
mod paste;
mod records;
mod reload;
mod sandbox;
mod stores;

use self::paste::Paste;
use self::records::Kept;
use self::reload::{Started, readable_secrets, reloader};
use self::sandbox::Needs;
use self::stores::Stores;
use crate::args::ServeArgs;
use crate::config::{Config, ConfigError, is_url, load_or_make};
use crate::failure::Failure;
use crate::output::{self, Exit, warn};
use crate::values::{Token, describe, find_token, open_collector};
use crate::{log, signals};
use longhaul::daemon::MEMORY_BYTES;
use longhaul::daemon::admission::Admission;
use longhaul::daemon::policy::{Access, Policy, UserKey};
use longhaul::daemon::token::UserToken;
use longhaul::{Collector, CollectorName, DEFAULT_PORT, Identity, ServeOptions, Target};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Serve until a signal comes.
pub fn run(args: &ServeArgs) -> Result<Exit, Failure> {
    let mut plan = match (&args.config, &args.root) {
        (Some(config), _) => Plan::of_config(args, config)?,
        (None, Some(root)) => Plan::of_folder(args, root)?,
        (None, None) => return Err(Failure::Usage("give --config FILE or --root DIR".into())),
    };
    let mut stores = Stores::mount(&plan.policy, &plan.store)?;
    stores.put_in_place(&mut plan.policy)?;
    log::start("info")?;
    let needs = plan.sandbox.then(|| plan.needs());
    let kept = Kept::open(plan.audit.as_deref(), plan.metrics)?;
    let identity = plan.policy.identity.clone();
    let admission = Admission::new(plan.policy)?;
    let options = ServeOptions {
        listen: plan.listen,
        admission: admission.clone(),
        records: kept.records(),
        memory_bytes: plan.memory_mib.map_or(MEMORY_BYTES, |mib| mib << 20),
        third_party: plan.third_party,
        may_set_all: plan.may_set_all,
        announce: plan.announce.clone(),
        fireflies: plan.firefly.and_then(collector),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let lost = Arc::new(OnceLock::new());
    stores.watch(end_without_store(&lost, &stop)).map_err(|error| Failure::Failed(describe(&error)))?;
    let stores = Arc::new(stores);
    let started = plan.config.clone().map(|config| Started { config, identity, needs: needs.clone() });
    let hang_up = started.map(|started| reloader(started, admission, stores.clone()));
    let mut failed = None;
    longhaul::serve(options, stop.clone(), |bound| {
        let warnings = needs.map(|needs| sandbox::enter(&needs)).unwrap_or_default();
        warnings.iter().for_each(|line| tracing::warn!("{line}; --no-sandbox asks for none"));
        let begun = signals::watch(&stop, hang_up).and_then(|()| kept.start());
        match begun {
            Ok(()) => {
                output::result(&plan.greeting.text(bound));
                tell_manager(&[sd_notify::NotifyState::Ready]);
            }
            Err(failure) => {
                failed = Some(failure);
                stop.store(true, Ordering::Relaxed);
            }
        }
    })?;
    tell_manager(&[sd_notify::NotifyState::Stopping]);
    kept.close();
    let lost = lost.get().map(|place| Failure::Failed(format!("{place}: longhaul-store has ended")));
    failed.or(lost).map_or(Ok(Exit::Done), Err)
}

/// What is done when a program that answers for an object store has ended: whoever started the server is to start both anew.
fn end_without_store(
    lost: &Arc<OnceLock<String>>,
    stop: &Arc<AtomicBool>,
) -> impl Fn(&str) + Clone + Send + 'static {
    let (lost, stop) = (lost.clone(), stop.clone());
    move |place| {
        if !stop.swap(true, Ordering::Relaxed) {
            let _ = lost.set(place.to_owned());
        }
    }
}

/// Tell the service manager that started this, if one did.
fn tell_manager(states: &[sd_notify::NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("the service manager cannot be told: {error}");
    }
}

/// What is to be done.
struct Plan {
    listen: SocketAddr,
    policy: Policy,
    audit: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    memory_mib: Option<u64>,
    sandbox: bool,
    third_party: bool,
    may_set_all: bool,
    announce: Vec<IpAddr>,
    firefly: Option<CollectorName>,
    /// How object stores are reached, besides what the environment says.
    store: Vec<(&'static str, String)>,
    /// The file to read again when asked to, and what it said.
    config: Option<(PathBuf, Config)>,
    /// Read again with it.
    key_file: Option<PathBuf>,
    greeting: Greeting,
}

/// What is said when it listens.
enum Greeting {
    Folder(String, Paste),
    Config(String),
}

impl Greeting {
    fn text(&self, bound: SocketAddr) -> String {
        match self {
            Greeting::Folder(root, paste) => paste.text(root, bound),
            Greeting::Config(file) => format!("serving at {bound} as {file} says"),
        }
    }
}

impl Plan {
    fn of_config(args: &ServeArgs, path: &Path) -> Result<Plan, Failure> {
        let (config, mut policy) = load(path)?;
        policy.identity = Some(load_or_make(&config.key_file, path)?);
        let is_private = std::fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o077 == 0);
        if !is_private && !policy.users.is_empty() {
            warn(&ConfigError::NotPrivate(path.into()).to_string());
        }
        readable_secrets(path, &config, &policy).iter().for_each(|line| warn(line));
        if policy.users.is_empty() {
            warn(&format!("there are no users yet: longhaul user add NAME --config {}", path.display()));
        }
        let started = config.clone();
        Ok(Plan {
            listen: args.listen.or(config.listen).unwrap_or_else(everywhere),
            policy,
            audit: config.audit,
            metrics: args.metrics.or(config.metrics),
            memory_mib: args.memory_mib.or(config.memory_mib),
            sandbox: config.sandbox && !args.no_sandbox,
            third_party: config.third_party,
            may_set_all: config.may_set_all,
            announce: config.announce,
            firefly: config.firefly,
            store: config.store,
            config: Some((path.into(), started)),
            key_file: Some(config.key_file),
            greeting: Greeting::Config(path.display().to_string()),
        })
    }

    /// One folder and one token: without a configuration.
    fn of_folder(args: &ServeArgs, root: &Path) -> Result<Plan, Failure> {
        if !root.is_dir() && !is_url(root) {
            return Err(Failure::Usage(format!("--root {}: no such folder", root.display())));
        }
        let given = find_token(args.token_file.as_deref()).map_err(Failure::Usage)?;
        let access = if args.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let (policy, token) = match &given {
            Some(token) => {
                (Policy::one_folder(root, checked(token)?, access), token.secret.secret().to_owned())
            }
            None => with_fresh_token(root, access)?,
        };
        let paste = Paste { token, from: given.map(|token| token.from), read_only: args.read_only };
        Ok(Plan {
            listen: args.listen.unwrap_or_else(everywhere),
            policy: policy.with_rate(args.max_rate).with_forwards(&args.allow_forward),
            audit: None,
            metrics: args.metrics,
            memory_mib: args.memory_mib,
            sandbox: !args.no_sandbox,
            third_party: args.allow_third_party,
            may_set_all: args.allow_super,
            announce: args.announce.clone(),
            firefly: None,
            store: vec![],
            config: None,
            key_file: None,
            greeting: Greeting::Folder(root.display().to_string(), paste),
        })
    }
}

impl Plan {
    /// What of the file system it takes: what it serves, and the configuration's folder to read that again.
    fn needs(&self) -> Needs {
        let mut needs = Needs { connect: self.third_party, set_all: self.may_set_all, ..Needs::default() };
        if let Some((config, _)) = &self.config {
            // Where it is, if this is a link; a whole folder, as changing a file puts another in its place.
            let config = std::fs::canonicalize(config).unwrap_or_else(|_| config.clone());
            needs.read.extend(config.parent().map(Path::to_path_buf));
        }
        needs.read.extend(self.key_file.clone());
        let forwards = self.policy.users.iter().flat_map(|user| &user.forwards);
        needs.connect_ports.extend(forwards.map(Target::port));
        for (_, grant) in self.policy.grants() {
            let into = if grant.access == Access::ReadOnly { &mut needs.read } else { &mut needs.write };
            into.push(grant.folder.clone());
        }
        needs
    }
}

/// What is told of flows. A daemon serves without it too.
fn collector(name: CollectorName) -> Option<Collector> {
    let opened =
        open_collector(name).map_err(|line| tracing::warn!("no fireflies until the next start: {line}"));
    opened.ok()
}

/// A secret that both sides have.
fn checked(token: &Token) -> Result<longhaul::Token, Failure> {
    if let Some(warning) = &token.warning {
        warn(warning);
    }
    match UserToken::read(token.secret.secret()) {
        Ok(None) => Ok(token.secret.clone()),
        _ => {
            let line = "this is the token of a user of some server: that server is started with --config, and this token \
                        goes to the one who copies";
            Err(Failure::Usage(line.into()))
        }
    }
}

/// A token that nobody has yet, of a server that nobody knows yet.
fn with_fresh_token(root: &Path, access: Access) -> Result<(Policy, String), Failure> {
    let fresh = || {
        let identity = Identity::generate()?;
        Ok((UserToken::generate(*identity.public())?, identity))
    };
    let (token, identity) = fresh().map_err(|error| Failure::from(ConfigError::Random(error)))?;
    let mut policy = Policy::one_folder(root, longhaul::Token::from(""), access);
    policy.identity = Some(identity);
    policy.users[0].key = UserKey::Own { id: token.id, secret: token.secret };
    Ok((policy, token.text()))
}

/// All but who the server is.
fn load(path: &Path) -> Result<(Config, Policy), ConfigError> {
    let mut config = Config::load(path)?;
    let policy = std::mem::take(&mut config.policy);
    Ok((config, policy))
}

/// The default port on every address, of IPv4 alone where the host has no IPv6.
fn everywhere() -> SocketAddr {
    let any = match UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)) {
        Ok(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        Err(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
    };
    SocketAddr::from((any, DEFAULT_PORT))
}
