//! Tests with real repositories, a real git, and malicious children.

mod apply;
mod blocked;
mod crash;
mod fuzz;
mod hostile;
mod kinds;
mod planted;
mod repositories;
mod support;
mod swapped;
mod tampered;
