//! A real server on a port of its own, with a real store and a scripted model.

mod entering;
mod limits;
mod live;
mod matrix;
mod once;
mod openapi;
mod requests;
mod secrets;
mod sessions;
mod streams;
mod support;
mod tasks;
mod tenants;
