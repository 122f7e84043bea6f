//! The protocols over the simulated network.

mod adaptive;
mod common;
mod ecn;
mod many;
mod network;
mod object;
mod paths;
mod pcp;
mod policer;
mod queues;
mod rates;
mod scenarios;
mod sizes;
mod steering;
mod switch;
mod tcp;
mod tcp_model;
mod workload;
