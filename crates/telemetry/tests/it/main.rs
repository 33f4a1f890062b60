//! Tests of the conversion from journals to spans: as data, as properties, and through a real
//! collector on loopback.

mod collector;
mod export;
mod journal;
mod properties;
mod stories;
