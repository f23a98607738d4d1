//! Recorded conversations with tools, as material for whole runs.
