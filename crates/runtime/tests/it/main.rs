//! The runtime as its users and its enemies see it.

mod simulation;
