//! What stands in the file, field by field.

use crate::hours::{days_of, span_of};
use crate::rate::parse_rate;
use crate::values::{check_memory, parse_listen};
use longhaul::daemon::policy::Access;
use longhaul::schedule::{Days, Hours, Schedule};
use longhaul::{CollectorName, ControllerKind, Rate, SciTag, Target};
use serde::de::{Deserialize, Deserializer, Error};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

/// Bytes of the text.
pub type Span = Option<Range<usize>>;

/// The whole file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Written {
    #[serde(default, deserialize_with = "address")]
    pub listen: Option<SocketAddr>,
    #[serde(default)]
    pub folders: BTreeMap<String, PathBuf>,
    #[serde(default)]
    pub users: BTreeMap<String, WrittenUser>,
    pub rate: Option<WrittenRate>,
    #[serde(default)]
    pub rates: Vec<WrittenHours>,
    pub sessions: Option<usize>,
    pub memory_mib: Option<WrittenMemory>,
    pub controls: Option<Vec<Parsed<ControllerKind>>>,
    pub fsync: Option<bool>,
    pub audit: Option<PathBuf>,
    #[serde(default, deserialize_with = "address")]
    pub metrics: Option<SocketAddr>,
    pub sandbox: Option<bool>,
    pub allow_third_party: Option<bool>,
    pub allow_super: Option<bool>,
    #[serde(default)]
    pub allow_forward: Vec<Parsed<Target>>,
    #[serde(default)]
    pub announce: Vec<IpAddr>,
    pub key_file: Option<PathBuf>,
    pub scitag: Option<Parsed<SciTag>>,
    pub firefly: Option<Parsed<CollectorName>>,
    #[serde(default)]
    pub s3: WrittenStore,
}

/// How object stores are reached. What is not said here is taken from the environment.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WrittenStore {
    pub endpoint: Option<String>,
    pub region: Option<String>,
    pub style: Option<String>,
    pub key_id: Option<String>,
    pub secret: Option<String>,
    pub session_token: Option<String>,
}

impl WrittenStore {
    /// As variables of the environment, by the names that other programs have for them too.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("AWS_ENDPOINT_URL_S3", &self.endpoint),
            ("AWS_REGION", &self.region),
            ("LONGHAUL_S3_STYLE", &self.style),
            ("AWS_ACCESS_KEY_ID", &self.key_id),
            ("AWS_SECRET_ACCESS_KEY", &self.secret),
            ("AWS_SESSION_TOKEN", &self.session_token),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

impl Written {
    pub fn rates(&self) -> Schedule {
        schedule(&self.rate, &self.rates)
    }
}

/// Memory for the copies of a server.
pub struct WrittenMemory(pub u64);

impl<'de> Deserialize<'de> for WrittenMemory {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<WrittenMemory, D::Error> {
        check_memory(u64::deserialize(from)?).map(WrittenMemory).map_err(D::Error::custom)
    }
}

/// One user.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct WrittenUser {
    pub id: String,
    pub key: String,
    pub folders: BTreeMap<String, Parsed<Access>>,
    pub rate: Option<WrittenRate>,
    #[serde(default)]
    pub rates: Vec<WrittenHours>,
    pub sessions: Option<usize>,
    pub controls: Option<Vec<Parsed<ControllerKind>>>,
    pub allow_forward: Option<Vec<Parsed<Target>>>,
    pub scitag: Option<Parsed<SciTag>>,
}

impl WrittenUser {
    pub fn rates(&self) -> Schedule {
        schedule(&self.rate, &self.rates)
    }
}

fn schedule(always: &Option<WrittenRate>, hours: &[WrittenHours]) -> Schedule {
    Schedule {
        always: always.as_ref().map(|rate| rate.0),
        hours: hours.iter().map(|hours| hours.0).collect(),
    }
}

pub struct WrittenRate(pub Rate);
pub struct WrittenHours(pub Hours);
/// What is written as on the command line.
pub struct Parsed<T>(pub T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Parsed<T>, D::Error> {
        String::deserialize(from)?.parse().map(Parsed).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for WrittenRate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<WrittenRate, D::Error> {
        parse_rate(&String::deserialize(from)?).map(WrittenRate).map_err(D::Error::custom)
    }
}

/// As a table, before its parts are checked against each other.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct HoursTable {
    from: String,
    to: String,
    days: Option<String>,
    rate: WrittenRate,
}

impl<'de> Deserialize<'de> for WrittenHours {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<WrittenHours, D::Error> {
        let table = HoursTable::deserialize(from)?;
        let (from, to) = span_of(&table.from, &table.to).map_err(D::Error::custom)?;
        let days = match &table.days {
            None => Days::ALL,
            Some(text) => days_of(text).map_err(D::Error::custom)?,
        };
        Ok(WrittenHours(Hours { from, to, days, rate: table.rate.0 }))
    }
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    parse_listen(&String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}
