//! Reports on the terminal and as a page.

mod html;
mod synthetic;
mod terminal;
