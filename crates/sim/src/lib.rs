//! A simulated cluster, fault plans and checkers.
