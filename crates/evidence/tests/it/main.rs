//! The program `longhaul-lab`, the page of results, and the house itself.

mod browser;
mod circles;
mod common;
mod demo;
mod documents;
mod install;
mod lab;
mod lab_path;
mod page;
mod sim;
mod tidy;
mod trace;
