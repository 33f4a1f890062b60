//! A real server on a port of its own, with a real store and a scripted model.

mod matrix;
mod openapi;
mod support;
mod tasks;
