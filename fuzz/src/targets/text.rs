//! What people write: scenarios, places, rates, configurations, tokens.

use longhaul::CollectorName;
use longhaul::Location;
use longhaul::daemon::token::UserToken;
use longhaul_cli::config::Config;
use longhaul_cli::hours::{parse_rates, rates_text};
use longhaul_cli::rate::{parse_bytes, parse_rate};
use longhaul_net::history;
use longhaul_proto::control::Remembered;
use longhaul_proto::dscp::Dscp;
use longhaul_proto::scitag::SciTag;
use longhaul_proto::units::Rate;
use longhaul_sim::scenario::Scenario;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// A scenario that is read describes a path that can be, and is read the same from what it is written as.
pub fn scenario(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let scenario = match Scenario::parse(&text) {
        Ok(scenario) => scenario,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    scenario.validate().expect("what was read was checked");
    assert!(scenario.queue_bytes() >= u64::from(scenario.mtu) && scenario.bottleneck_mbit > 0.0);
    let written = toml::to_string(&scenario).expect("a scenario can be written");
    assert_eq!(Scenario::parse(&written).expect("what was written can be read"), scenario);
}

pub fn scenario_seeds() -> Vec<Vec<u8>> {
    let files = [
        include_str!("../../../scenarios/long-haul-100m.toml"),
        include_str!("../../../scenarios/fobs-nic.toml"),
        include_str!("../../../scenarios/rough.toml"),
        "bottleneck_mbit = 10\nrtt_ms = 1e3\nqueue_bdp = 0.5\nmtu = 9000\nseed = 7\n",
    ];
    files.map(|text| text.into()).to_vec()
}

/// A place that is understood can be handed to ssh or to a resolver.
pub fn location(bytes: &[u8]) {
    match Location::parse(&OsString::from_vec(bytes.to_vec())) {
        Ok(Location::Local(path)) => assert_eq!(path.as_os_str(), OsString::from_vec(bytes.to_vec())),
        Ok(Location::Ssh { host, path }) => {
            // Neither an option of ssh nor nothing.
            assert!(!host.is_empty() && !host.starts_with('-') && !path.is_empty(), "{host:?} {path:?}");
        }
        Ok(Location::Daemon { host, .. }) => assert!(!host.is_empty()),
        Ok(Location::Pipe) => panic!("a text was read as a pipe"),
        Err(reason) => assert!(!reason.to_string().is_empty()),
    }
}

pub fn location_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "a/b:c",
        "me@far.example.org:data/",
        "[2001:db8::1]:x",
        "me@[2001:db8::1]:~/x",
        "longhaul://far.example.org:7700/a/b",
        "longhaul://[::1]:99/",
        "far:",
        "-oProxyCommand=x:y",
    ];
    texts.map(|text| text.into()).to_vec()
}

/// A rate that is read is one that a path can have, and a size one that a transfer can. Rates by the clock and code points are read the
/// same from what they are written as.
pub fn rate(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match parse_rate(&text) {
        Ok(rate) => assert!((1_000..1_000_000_000_000_000).contains(&rate.0), "{rate:?}"),
        Err(reason) => assert!(!reason.to_string().is_empty()),
    }
    match parse_rates(&text) {
        Ok(rates) => {
            assert_eq!(parse_rates(&rates_text(&rates)).as_ref(), Ok(&rates), "{}", rates_text(&rates))
        }
        Err(reason) => assert!(!reason.is_empty()),
    }
    if let Ok(dscp) = text.parse::<Dscp>() {
        assert_eq!(dscp.to_string().parse().ok(), Some(dscp));
    }
    if let Ok(tag) = text.parse::<SciTag>() {
        assert_eq!(tag.to_string().parse(), Ok(tag));
    }
    if let Ok(name) = text.parse::<CollectorName>() {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
    match parse_bytes(&text) {
        Ok(bytes) => assert!((1..=1_000_000_000_000_000).contains(&bytes), "{bytes}"),
        Err(reason) => assert!(!reason.to_string().is_empty()),
    }
}

pub fn rate_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "800mbit",
        "1.5gbit/s",
        "50MB/s",
        "1MiB/s",
        "9600 bits",
        ".5g",
        "1Tbps",
        "40MB",
        "64 KiB",
        "08:00-18:00 200mbit, 2gbit",
        "sat,sun 00:00-24:00 5gbit,mon-fri 22:00-06:00 1g",
        "none",
        "af11",
    ];
    texts.map(|text| text.into()).to_vec()
}

/// A configuration is read, or refused in one line that says where.
pub fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Err(error) = Config::parse(&text, Path::new("serve.toml")) {
        let line = error.to_string();
        assert!(line.starts_with("serve.toml:") && !line.contains('\n'), "{line:?}");
    }
}

pub fn config_seeds() -> Vec<Vec<u8>> {
    let full = "listen = \"[::]:7700\"\nrate = \"5gbit\"\nsessions = 9\ncontrols = [\"adaptive\"]\naudit = \"a\"\n\
                rates = [{ from = \"08:00\", to = \"18:00\", days = \"mon-fri,sun\", rate = \"200M\" }]\n\
                [folders]\ndata = \"/srv\"\n[users.alice]\nid = \"0102030405060708\"\n\
                key = \"000102030405060708090a0b0c0d0e0f\"\nfolders = { data = \"write-only\" }\n";
    vec![full.into(), b"folders = { \"/\" = \"x\" }".to_vec()]
}

/// A token that is read is written the same.
pub fn token(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match UserToken::read(&text) {
        Ok(Some(token)) => assert_eq!(token.text(), text.trim().to_ascii_lowercase()),
        Ok(None) => assert!(!text.trim().starts_with("lh1.")),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub fn token_seeds() -> Vec<Vec<u8>> {
    let token = UserToken { server: [7; 32], id: [8; 8], secret: [9; 16] };
    vec![token.text().into(), b"a secret of one's own".to_vec()]
}

/// What was remembered of paths is read or ignored, and what is noted then is remembered.
pub fn history(bytes: &[u8]) {
    let file = std::env::temp_dir().join(format!("longhaul-fuzz-history-{}", std::process::id()));
    std::fs::write(&file, bytes).expect("a temporary file");
    let _ = history::recall::<Remembered>(&file, "far.example");
    let found = Remembered::new(Rate::from_mbps(93.0));
    history::note(&file, "near.example", found);
    assert_eq!(history::recall(&file, "near.example"), Some(found));
    let _ = std::fs::remove_file(&file);
}

pub fn history_seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"paths":{"far.example":{"rate":93000000,"share":0.333,"at_s":99999999999}}}"#,
        r#"{"paths":{}}"#,
    ];
    texts.map(|text| text.into()).to_vec()
}
