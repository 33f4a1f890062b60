//! The library as a program that embeds it sees it.

mod examples;
