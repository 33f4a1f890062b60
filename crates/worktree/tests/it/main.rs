//! Real repositories, a real git, and children that mean no good.

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
