//! The page through HTTP and in a browser.

mod browser;
mod events;
mod harness;
mod requests;
mod runs;
mod webdriver;
